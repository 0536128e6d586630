import pytest

from unitail.answer_defaults import DOUBTFUL, NOVEL
from unitail.encoders.encoder import Modality
from unitail.workflows.answers import Answer, Answers, State


def _answer(place: int, name: str, p: float = 0.9, novelty: float = 0.2) -> Answer:
    return Answer(
        place=place,
        name=name,
        label="a",
        probability=p,
        top=(("a", p), ("b", 1 - p)),
        members=("a",),
        novelty=novelty,
        repeated=name == "again",
    )


def _answers(*answers: Answer) -> Answers:
    return Answers(
        answers=answers,
        unreadable=(),
        modality=Modality.IMAGE,
        encoder="some",
        examples={"a": 2, "b": 1},
        coverage=0.9,
        joint=False,
    )


def test_the_least_certain_come_first() -> None:
    result = _answers(_answer(0, "a", p=0.9), _answer(1, "b", p=0.4), _answer(2, "c", p=0.9))
    assert [answer.name for answer in result.by_uncertainty()] == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("p", "novelty", "state"),
    [
        (0.51, 0.2, State.DOUBTFUL),  # one class in its set, and still as good as a coin
        (DOUBTFUL - 1e-6, 0.2, State.DOUBTFUL),
        (DOUBTFUL, 0.2, State.LIKELY),
        (0.99, NOVEL, State.NOVEL),
        (0.3, NOVEL, State.NOVEL),
    ],
)
def test_a_state_is_what_the_numbers_say(p: float, novelty: float, state: State) -> None:
    assert _answer(0, "x", p, novelty).state is state


def test_items_that_equal_an_example_are_named() -> None:
    assert _answers(_answer(0, "new"), _answer(1, "again")).repeated == ("again",)
