import io

from PIL import Image

from unitail.plotting import as_png, make_panels


def test_a_figure_has_its_panels_and_its_size() -> None:
    figure, panels = make_panels(2, 3, (3.0, 2.0), sharey=True)
    assert len(panels) == len(figure.axes) == 6
    panels[0].set_ylim(0, 7)
    assert panels[2].get_ylim() == (0, 7)
    with Image.open(io.BytesIO(as_png(figure, 50))) as picture:
        assert (picture.format, picture.size) == ("PNG", (150, 100))


def test_panels_have_axes_of_their_own_unless_they_share() -> None:
    _, panels = make_panels(1, 2, (2.0, 1.0))
    panels[0].set_ylim(0, 7)
    assert panels[1].get_ylim() == (0, 1)
