import pytest

from helpers.builders import random_support, small_model
from unitail.errors import DrawMismatch, TooManyClasses
from unitail.nn.slot_model import draw_injections
from unitail.randomness import stream

MODEL = small_model()
DRAW = MODEL.draw(random_support((1, 1, 1), feature_dim=5), stream(0))


@pytest.mark.parametrize(
    ("support", "message"),
    [
        (random_support((1, 1, 1), feature_dim=6), "another feature width: got a support with 6"),
        (random_support((1, 1)), "another number of classes: got a support with 2"),
        (random_support((1, 1, 1), episodes=1), "another number of episodes: got a support with 1"),
    ],
)
def test_a_draw_for_another_episode_is_refused(support: object, message: str) -> None:
    with pytest.raises(DrawMismatch, match=message) as error:
        MODEL.read(support, DRAW)  # type: ignore[arg-type]
    assert "model.draw(support, generator)" in str(error.value)


def test_a_draw_of_another_model_is_refused() -> None:
    support = random_support((1, 1, 1))
    other = small_model(projected_dim=8, hidden_dim=12)
    with pytest.raises(DrawMismatch, match="another model: got a projection to width 8; allowed"):
        MODEL.read(support, other.draw(support, stream(0)))


def test_more_classes_than_slots_are_refused_with_the_way_out() -> None:
    message = (
        "more classes than the model has slots: got 8 classes; allowed: at most 7. "
        r"Use a model that was built for more classes \(TAIL's preset 'paper-large' has 256 slots\)"
    )
    with pytest.raises(TooManyClasses, match=message):
        draw_injections(1, 8, 7, stream(0))


def test_all_slots_can_be_used_at_once() -> None:
    injections = draw_injections(4, 7, 7, stream(0))
    assert all(sorted(row.tolist()) == list(range(7)) for row in injections)
