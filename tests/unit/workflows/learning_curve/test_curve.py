import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.blobs import blobs
from helpers.known_learners import SolvesNothing, SureOfFirst
from helpers.letters import Letters
from unitail.baselines.proto_head import ProtoHead
from unitail.errors import TooManyClasses
from unitail.estimator.as_learner import ClassifierLearner
from unitail.estimator.rows import Rows
from unitail.framework.episode import Support
from unitail.framework.learner import Paradigm
from unitail.inputs.input_encoder import ItemEncoder
from unitail.learners import in_context
from unitail.learners.pretrained import load_shipped
from unitail.workflows.fit import ClassifierOptions
from unitail.workflows.learning_curve import curve as module
from unitail.workflows.learning_curve.curve import own_curve


class Nearest:
    """Answers with the class of the nearest row; knows a row that it was shown."""

    paradigm = Paradigm.EXPLICIT

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        distance = torch.cdist(query_features, support.features)
        assert (distance > 0).all(), "a row was shown and asked"
        nearest = support.class_indices.gather(1, distance.argmin(dim=-1))
        member = torch.nn.functional.one_hot(nearest, support.ways).double()
        return (0.8 * member + 0.2 / support.ways).log()


class GivesUp:
    """Refuses supports of more than a few rows."""

    paradigm = Paradigm.EXPLICIT

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        if support.num_support > 9:
            raise TooManyClasses("too much", got=support.num_support, allowed="9")
        return ProtoHead().infer(support, query_features)


@pytest.fixture(scope="module")
def rows() -> Rows:
    features, indices, _, _ = blobs(ways=3, shots=6)
    return Rows(features, indices, 3)


def test_no_row_is_asked_that_was_shown_and_each_is_left_out_once(rows: Rows) -> None:
    curve = own_curve(rows, {"nearest": Nearest()}, splits=20)
    assert [level.shots for level in curve.levels] == [1, 2, 3, 5, None]
    assert [level.shots_on_average for level in curve.levels] == [1, 2, 3, 5, 5]
    assert sorted(curve.levels[-1].query_rows) == list(range(18))
    distance = np.linalg.norm(rows.features[:, None] - rows.features[None], axis=-1)
    np.fill_diagonal(distance, np.inf)
    right = (rows.class_indices[distance.argmin(axis=1)] == rows.class_indices).mean()
    # all but one of each class are shown: a nearest row that is left out too is rare
    assert curve.accuracy("nearest")[4].mean == pytest.approx(right, abs=2 / 18)


def test_accuracy_counts_each_row_once_whatever_its_class() -> None:
    features = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    rows = Rows(features, np.repeat([0, 1, 2], [2, 4, 6]), 3)
    curve = own_curve(rows, {"first": SureOfFirst()}, splits=40)
    for estimate in curve.accuracy("first").values():
        assert estimate.mean == pytest.approx(2 / 12)


def test_batches_change_nothing(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = own_curve(rows, {"p": ProtoHead()}, splits=10, seed=3)
    monkeypatch.setattr(in_context, "MAX_NUMBERS", 1)
    single = own_curve(rows, {"p": ProtoHead()}, splits=10, seed=3)
    for one, other in zip(whole.levels, single.levels, strict=True):
        assert (one.answers["p"] == other.answers["p"]).all()
    assert whole.accuracy("p") == single.accuracy("p")


def test_the_model_that_is_measured_limits_the_batches(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[object]()

    def at_once(model: object, *_: int) -> int:
        asked.append(model)
        return 4

    monkeypatch.setattr(module, "episodes_at_once", at_once)
    tail = load_shipped("tail")
    own_curve(rows, {"p": ProtoHead()}, splits=10, model=tail)
    assert all(model is tail for model in asked)


def test_a_learner_that_gives_up_leaves_the_others_alone(rows: Rows) -> None:
    learners = {"p": ProtoHead(), "cannot": SolvesNothing(), "gives up": GivesUp()}
    curve = own_curve(rows, learners, splits=5)
    assert list(curve.failures) == ["cannot", "gives up"]
    assert "too many classes" in curve.failures["cannot"]
    assert [list(curve.accuracy(name)) for name in learners] == [[0, 1, 2, 3, 4], [], [0, 1, 2]]


def test_a_lead_over_the_same_questions_is_more_certain_than_the_accuracies(rows: Rows) -> None:
    curve = own_curve(rows, {"p": ProtoHead(), "n": Nearest()}, splits=50)
    lead, own, other = curve.lead("p", "n"), curve.accuracy("p"), curve.accuracy("n")
    assert lead[2].mean == pytest.approx(own[2].mean - other[2].mean)
    assert lead[2].half_width < own[2].half_width + other[2].half_width
    assert curve.lead("p", "p")[2].half_width == 0


def test_beyond_half_of_the_rows_the_spread_is_carried_over() -> None:
    indices = np.repeat(np.arange(3), 6)
    noise = np.random.default_rng(0).normal(size=(18, 3))
    rows = Rows(np.eye(3)[indices] + noise, indices, 3)  # hard to tell apart
    curve = own_curve(rows, {"p": ProtoHead()}, splits=50)
    spread = curve.spread("p")  # at 1, 2, 3, 5 and 5 of 6 rows of a class
    assert len({spread[0], spread[1], spread[2]}) == 3
    assert spread[2] == spread[3] == spread[4] > 0


def test_confusions_are_those_of_leave_one_out(rows: Rows) -> None:
    curve = own_curve(rows, {"first": SureOfFirst(), "cannot": SolvesNothing()}, splits=5)
    assert curve.confusions("first") == [(1, 0, 6), (2, 0, 6)]
    assert curve.confusions("cannot") == []


def test_progress_reaches_the_end(rows: Rows) -> None:
    progress: list[tuple[int, int]] = []
    own_curve(
        rows, {"p": ProtoHead()}, splits=5, on_progress=lambda done, of: progress.append((done, of))
    )
    assert progress[-1] == (26, 26)
    assert [done for done, _ in progress] == sorted({done for done, _ in progress})


@pytest.mark.parametrize("joint", [False, True])
def test_our_learner_is_the_classifier_that_predicts(rows: Rows, *, joint: bool) -> None:
    """`unitail evaluate` measures what `unitail predict` answers with."""
    by = ItemEncoder(encoder=Letters(), named=False)
    classifier = ClassifierOptions(joint=joint, device="cpu").classifier(by)
    curve = own_curve(rows, {"ours": ClassifierLearner.of(classifier)}, splits=4)
    for level in curve.levels:
        expected = [
            classifier.fit(rows.features[shown], rows.class_indices[shown]).predict(
                rows.features[asked]
            )
            for group in level.splits
            for shown, asked in zip(group.support, group.query, strict=True)
        ]
        assert (level.answers["ours"] == np.concatenate(expected)).all()
