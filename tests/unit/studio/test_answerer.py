import numpy as np

from unitail.studio.latest_answers import NONE, Answered, LatestAnswers


def test_it_is_known_which_answers_are_out_of_date() -> None:
    answers, places, versions = LatestAnswers(4), np.arange(4), np.array([1, 1, 2, 1])
    told = Answered(
        7, places[:3], versions[:3], np.ones((3, 2), np.int64), np.ones((3, 2)), np.ones(3)
    )
    answers.put(told)
    assert answers.stale(places, versions, 7).tolist() == [3]
    assert answers.stale(places, versions, 8).tolist() == [0, 1, 2, 3]
    assert answers.stale(places, np.array([1, 2, 2, 1]), 7).tolist() == [1, 3]
    assert answers.at(places).class_ids[:, 0].tolist() == [1, 1, 1, NONE]


def test_novelty_is_that_of_the_latest_answer() -> None:
    answers, places = LatestAnswers(3), np.arange(2)
    ids, halves = np.ones((2, 2), dtype=np.int64), np.full((2, 2), 0.5)
    answers.put(Answered(0, places, places, ids, halves))
    assert answers.without_novelty(places).tolist() == [0, 1]
    answers.put_novelty(places[:1], np.array([0.25]))
    assert answers.without_novelty(places).tolist() == [1]
    answers.put(Answered(1, places, places, ids, halves))
    assert answers.without_novelty(places).tolist() == [0, 1]
    answers.put(Answered(2, places, places, ids, halves, np.array([0.5, 0.75])))
    assert answers.without_novelty(places).tolist() == []
    answers.grow(4)
    assert answers.at(np.arange(4)).novelty.tolist() == [0.5, 0.75, 0, 0]  # type: ignore[union-attr]
    assert answers.without_novelty(np.arange(4)).tolist() == [2, 3]
