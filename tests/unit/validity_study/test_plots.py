from unitail.validity_study.plots import COLOURS, SIGNS, plot_curves, plot_verdicts
from unitail.validity_study.study import ValidityStudy, Verdict


def test_pictures_are_made_of_studies_with_gaps(study: ValidityStudy) -> None:
    for picture in (plot_verdicts(study), plot_curves(study)):
        assert picture.startswith(b"\x89PNG")
    assert set(COLOURS) == set(SIGNS) == set(Verdict)
