import math

import pytest
import torch
from torch import Tensor

from unitail.randomness import stream
from unitail.relational.geometry import Geometry
from unitail.relational.weighing import TEMPERATURES, Evidence, gather_evidence, num_statistics

WAYS = 3


def labels(classes: list[int]) -> Tensor:
    return torch.nn.functional.one_hot(torch.tensor([classes]), WAYS).double()


def evidence(classes: list[int], left_out: Tensor, seed: int = 0, extra: int = 2) -> Evidence:
    count = len(classes) + extra
    rows = torch.randn(1, count, 5, generator=stream(seed), dtype=torch.float64)
    _, compared = Geometry.of(rows)
    return gather_evidence(compared, labels(classes), left_out)


def scores(classes: list[int], candidates: int = 2, seed: int = 1) -> Tensor:
    shape = (1, candidates, len(classes), WAYS)
    return torch.randn(shape, generator=stream(seed), dtype=torch.float64)


def test_the_loss_is_that_of_the_best_temperature_in_units_of_a_guess() -> None:
    classes = [0, 1, 2, 0, 1, 2]
    left_out = scores(classes)
    result = evidence(classes, left_out)
    for candidate in range(2):
        losses = [
            torch.nn.functional.cross_entropy(
                factor * left_out[0, candidate], torch.tensor(classes)
            ).item()
            for factor in TEMPERATURES
        ]
        assert result.loss[0, candidate].item() == pytest.approx(min(losses) / math.log(WAYS))
        weights = torch.tensor(losses).mul(-len(classes)).softmax(0)
        mean = sum(w * math.log(t) for w, t in zip(weights.tolist(), TEMPERATURES, strict=True))
        assert result.log_temperature[0, candidate].item() == pytest.approx(mean, rel=1e-5)
        right = left_out[0, candidate].argmax(dim=1) == torch.tensor(classes)
        assert result.accuracy[0, candidate].item() == pytest.approx(right.double().mean().item())


def test_the_only_row_of_a_class_says_nothing() -> None:
    classes = [0, 0, 1, 1, 2]
    left_out = scores(classes)
    before = evidence(classes, left_out)
    assert before.count.item() == 4
    left_out[:, :, 4] = 100 * left_out[:, :, 4]
    again = evidence(classes, left_out)
    assert torch.equal(before.loss, again.loss)


def test_without_evidence_all_candidates_are_guesses() -> None:
    result = evidence([0, 1, 2], scores([0, 1, 2]))
    assert result.count.item() == 0
    assert torch.equal(result.loss, torch.ones_like(result.loss))
    assert torch.equal(result.log_temperature, torch.zeros_like(result.loss))
    torch.testing.assert_close(result.accuracy, torch.full_like(result.loss, 1 / WAYS))


def test_statistics_are_as_many_as_are_announced_and_finite() -> None:
    for classes in ([0, 1, 2], [0, 1, 2, 2, 1]):
        result = evidence(classes, scores(classes))
        assert result.statistics.shape == (1, num_statistics(2))
        assert result.statistics.isfinite().all()


def test_names_of_classes_and_order_of_rows_do_not_matter() -> None:
    classes, order, names = [0, 1, 2, 0, 1], [4, 2, 0, 1, 3], [2, 0, 1]
    rows = torch.randn(1, 5, 4, generator=stream(3), dtype=torch.float64)
    left_out = scores(classes)
    _, compared = Geometry.of(rows)
    before = gather_evidence(compared, labels(classes), left_out)
    _, compared = Geometry.of(rows[:, order])
    renamed = labels([names[classes[place]] for place in order])
    again = gather_evidence(compared, renamed, left_out[:, :, order][..., [1, 2, 0]])
    torch.testing.assert_close(again.statistics, before.statistics)
