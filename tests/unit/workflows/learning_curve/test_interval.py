import numpy as np
import pytest
import torch

from unitail.baselines.proto_head import ProtoHead, PrototypeVariant
from unitail.estimator.rows import Rows
from unitail.framework.statistics import MeanInterval
from unitail.randomness import stream
from unitail.tasks.bundled import bundled_tasks
from unitail.workflows.learning_curve.curve import OwnCurve, own_curve
from unitail.workflows.learning_curve.interval import Estimate, MarkMoments, Marks, forecast

TRIALS, SPLITS, SIZE = 60, 40, 6


def marks_of(value: np.ndarray) -> Marks:
    """Mark all rows in all splits: (R, N)."""
    split, row = np.indices(value.shape)
    classes = np.zeros(value.shape[1], dtype=np.int64)
    return Marks(split.ravel(), row.ravel(), value.ravel().astype(float), classes)


def test_the_mean_is_over_rows_however_often_each_was_asked() -> None:
    split, row = np.array([0, 0, 1, 2]), np.array([0, 1, 0, 0])
    marks = Marks(split, row, np.array([1.0, 0, 1, 1]), np.array([0, 0]))
    moments = MarkMoments.of(marks, 0.5)
    assert (moments.mean, moments.rows) == (0.5, 2)


def test_rows_that_were_asked_stand_for_others_of_their_class() -> None:
    split, row = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    marks = Marks(split, row, np.array([1.0, 0, 1, 0]), np.array([0, 1, 1, 1, 2]))
    moments = MarkMoments.of(marks, 0.5)
    assert (moments.mean, moments.rows) == (pytest.approx(0.25), 2)


def test_some_rows_may_be_all_that_is_measured_on() -> None:
    classes = np.array([0, 0, 0, 1, 1])
    asked = np.array([0, 1, 2, 3, 4, 1])
    marks = Marks(np.array([0, 0, 0, 0, 0, 1]), asked, np.array([1.0, 0, 1, 1, 0, 1]), classes)
    among = marks.among(np.array([False, True, True, False, True]))
    assert among.split.tolist() == [0, 0, 0, 1]
    assert among.row.tolist() == [0, 1, 2, 0]
    assert among.value.tolist() == [0, 1, 0, 1]
    assert among.classes.tolist() == [0, 0, 1]
    everything = marks.among(np.ones(5, dtype=bool))
    assert MarkMoments.of(everything, 0.5) == MarkMoments.of(marks, 0.5)


def test_more_splits_of_the_same_rows_do_not_make_it_more_certain() -> None:
    right = np.array([[1, 1, 1, 0, 1, 0, 1, 1]])
    few, many = (MarkMoments.of(marks_of(right.repeat(count, axis=0)), 0.5) for count in (5, 500))
    assert many.variance == pytest.approx(few.variance)
    assert many.variance == pytest.approx(right.var(ddof=1) / 8)


def test_luck_with_supports_is_told_from_luck_with_rows() -> None:
    generator = np.random.default_rng(0)
    supports = 0.1 * generator.normal(size=(4000, 1))
    rows, noise = 0.3 * generator.normal(size=(1, 20)), 0.4 * generator.normal(size=(4000, 20))
    moments = MarkMoments.of(marks_of(0.5 + supports + rows + noise), 0.2)
    assert moments.support_variance * 0.8 == pytest.approx(0.01, rel=0.1)
    share = moments.support_variance * (0.2 + 0.8 / 4000)
    assert moments.variance - share == pytest.approx(rows.var(ddof=1) / 20, rel=0.1)


def test_beyond_half_of_the_rows_the_variance_is_carried_over() -> None:
    marks = marks_of(np.eye(4))
    assert MarkMoments.of(marks, 0.75, carried=0.5).support_variance == 0.5
    assert MarkMoments.of(marks, 0.25, carried=0.5).support_variance != 0.5


def test_no_mistake_on_few_rows_is_not_certainty() -> None:
    accuracy = MarkMoments.of(marks_of(np.ones((3, 10))), 0.5).accuracy()
    assert (accuracy.mean, accuracy.high) == (1, 1)
    assert 0.6 < accuracy.low < 0.75


def test_the_forecast_follows_a_power_law_and_is_less_certain() -> None:
    shots = [1.0, 2, 4, 8]
    curve = [Estimate(1 - 0.4 * n**-0.5, 0.9 - 0.4 * n**-0.5, 1.02 - 0.4 * n**-0.5) for n in shots]
    estimate = forecast(shots, curve, 16)
    assert estimate.mean == pytest.approx(1 - 0.4 / 4)
    gain = estimate.mean - curve[-1].mean
    assert estimate.low == curve[-1].low
    assert estimate.high == pytest.approx(curve[-1].high + 2 * gain)
    assert (
        forecast(shots, [Estimate(0.5, 0.4, 0.6), *curve[1:3], Estimate(0.9, 0.8, 1)], 16).high == 1
    )


@pytest.mark.parametrize(
    ("shots", "means"), [([1.0, 1.0], [0.6, 0.7]), ([1.0, 2.0], [0.7, 0.6]), ([1.0, 2.0], [1, 1])]
)
def test_nothing_is_gained_where_the_curve_does_not_rise(
    shots: list[float], means: list[float]
) -> None:
    estimate = forecast(shots, [Estimate(mean, mean - 0.1, 1) for mean in means], 4)
    assert estimate.mean == means[-1]


@pytest.fixture(scope="module")
def trials() -> list[OwnCurve]:
    """Estimate from six rows of each digit, again and again."""
    digits = bundled_tasks()[0]
    generator = stream(0, "trials")
    learner = {"prototypes": ProtoHead(PrototypeVariant.CENTRED)}
    curves = []
    for seed in range(TRIALS):
        drawn = digits.sample(episodes=1, shots=SIZE, queries=1, generator=generator).support
        rows = Rows(drawn.features[0].numpy(), drawn.class_indices[0].numpy(), drawn.ways)
        curves.append(own_curve(rows, learner, splits=SPLITS, seed=seed))
    return curves


def true_accuracy(shots: int) -> float:
    """Measure with rows that the trials do not have."""
    digits = bundled_tasks()[0]
    drawn = digits.sample(episodes=200, shots=shots, queries=15, generator=stream(1, shots))
    answers = ProtoHead(PrototypeVariant.CENTRED).infer(drawn.support, drawn.query.features)
    return float((answers.argmax(dim=-1) == drawn.query.class_indices).to(torch.float64).mean())


@pytest.mark.parametrize(("place", "shots"), [(0, 1), (1, 2), (2, 3), (3, 5), (4, 5)])
def test_the_interval_holds_the_accuracy_on_new_rows(
    trials: list[OwnCurve], place: int, shots: int
) -> None:
    truth = true_accuracy(shots)
    estimates = [curve.accuracy("prototypes")[place] for curve in trials]
    held = np.mean([each.low <= truth <= each.high for each in estimates])
    assert held >= 0.88  # 95 % promised; three standard errors of sixty trials are 8 %
    assert np.mean([each.high - each.low for each in estimates]) < 0.3
    assert abs(np.mean([each.mean for each in estimates]) - truth) < 0.03


def test_an_interval_over_splits_would_not_hold_it(trials: list[OwnCurve]) -> None:
    truth, held = true_accuracy(1), []
    for curve in trials:
        marks = curve.levels[0].marks("prototypes")
        each = MeanInterval.of(np.bincount(marks.split, marks.value) / np.bincount(marks.split))
        held.append(each.low <= truth <= each.high)
    assert np.mean(held) < 0.7


def test_the_forecast_holds_the_accuracy_with_twice_the_examples(trials: list[OwnCurve]) -> None:
    truth = true_accuracy(2 * (SIZE - 1))
    forecasts = [curve.forecast("prototypes") for curve in trials]
    assert np.mean([each.low <= truth <= each.high for each in forecasts]) >= 0.88
    last = [curve.accuracy("prototypes")[4] for curve in trials]
    wider = [
        after.high - after.low >= before.high - before.low
        for before, after in zip(last, forecasts, strict=True)
    ]
    assert np.mean(wider) > 0.8  # accuracies end at 1
