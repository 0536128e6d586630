from unitail.nn.visibility import Visibility
from unitail.randomness import stream
from unitail.training.batches import draw_visibility


def test_each_step_draws_one_of_the_visibilities() -> None:
    both = (Visibility.ISOLATED, Visibility.JOINT)
    drawn = [draw_visibility(both, stream(0, step)) for step in range(200)]
    assert 60 < drawn.count(Visibility.JOINT) < 140
    assert drawn.count(None) == 0


def test_with_nothing_to_choose_from_the_model_decides() -> None:
    assert draw_visibility((), stream(0)) is None
