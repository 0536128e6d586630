import pytest

from unitail.encoders.encoder import Modality
from unitail.inputs.items import Items, Record
from unitail.workflows.answers import Answer, Answers, score, scores_as_json


def _scored(*pairs: tuple[str, str], repeated: int = 0) -> tuple[Answers, Items]:
    """Make answers with true labels; the first ones equal an example."""
    answers = tuple(
        Answer(
            place=place,
            name=str(place),
            label=said,
            probability=0.9,
            top=((said, 0.9),),
            members=(said,),
            novelty=0.1,
            repeated=place < repeated,
        )
        for place, (_, said) in enumerate(pairs)
    )
    result = Answers(
        answers=answers,
        unreadable=(),
        modality=Modality.TEXT,
        encoder="some",
        examples={"a": 1, "b": 1},
        coverage=0.9,
        joint=False,
    )
    # A row without an item goes before, so that places of items are not numbers of records.
    records = (
        Record(cells={}, item=None, row=1, label="a"),
        *(
            Record(cells={}, item=place, row=place + 2, label=true)
            for place, (true, _) in enumerate(pairs)
        ),
    )
    names = tuple(answer.name for answer in answers)
    return result, Items(items=names, names=names, modality=Modality.TEXT, records=records)


PAIRS = (("a", "a"), ("a", "a"), ("a", "b"), ("b", "b"), ("c", "b"), ("", "a"))


def test_answers_are_held_to_the_labels() -> None:
    scores = score(*_scored(*PAIRS))
    assert scores is not None
    assert (scores.num_items, scores.num_right, scores.accuracy) == (5, 3, 0.6)
    assert scores.interval == pytest.approx((0.2307, 0.8824), abs=1e-4)  # Wilson's, by hand
    assert scores.confusion == {"a": {"a": 2, "b": 1}, "b": {"b": 1}, "c": {"b": 1}}
    a, b, c = scores.by_class()
    assert (a.items, a.answers, a.right, a.confused_with) == (3, 2, 2, {"b": 1})
    assert (a.recall, a.precision) == (pytest.approx(2 / 3), 1.0)
    assert (b.recall, b.precision) == (1.0, pytest.approx(1 / 3))
    assert (c.recall, c.precision) == (0.0, None)  # a class without examples


def test_what_equals_an_example_does_not_count() -> None:
    scores = score(*_scored(*PAIRS, repeated=2))
    assert scores is not None
    assert (scores.num_items, scores.num_right, scores.num_repeated) == (3, 1, 2)


def test_without_labels_there_is_no_score() -> None:
    assert score(*_scored(("", "a"))) is None
    assert score(*_scored(("a", "a"), repeated=1)) is None


def test_json_has_all() -> None:
    scores = score(*_scored(("a", "a"), ("b", "a")))
    assert scores is not None
    assert scores_as_json(scores) == {
        "items": 2,
        "right": 1,
        "accuracy": 0.5,
        "accuracy_interval_95": [0.094531, 0.905469],
        "not_counted_equal_to_an_example": 0,
        "classes": {
            "a": {"items": 1, "answers": 2, "right": 1, "recall": 1.0, "precision": 0.5},
            "b": {"items": 1, "answers": 0, "right": 0, "recall": 0.0, "precision": None},
        },
        "confusion": {"a": {"a": 1}, "b": {"a": 1}},
    }
