from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from unitail.encoders import table_view
from unitail.encoders.table_view import (
    MAX_WIDTH,
    STEPS,
    TableView,
    numeric_coordinates,
    steps_per_column,
)
from unitail.randomness import stream

ROWS, WIDTH = 60, 5
SUPPORT = torch.randn(3, ROWS, WIDTH, generator=stream(0), dtype=torch.float64)
CLASSES = torch.arange(2).repeat(3, ROWS // 2)
EVERY = torch.arange(WIDTH)


def _view(support: Tensor = SUPPORT, classes: Tensor = CLASSES, ways: int = 2) -> TableView:
    return TableView.of(support, classes, ways, torch.arange(support.shape[2]))


def test_the_squared_distance_of_steps_counts_the_thresholds_between() -> None:
    view = _view()
    plain = TableView(
        view.stepped, view.thresholds, view.means, view.factors, torch.ones(3, 1, WIDTH)
    )
    shown = plain(SUPPORT)
    assert shown.shape == (3, ROWS, WIDTH * (1 + STEPS))
    torch.testing.assert_close(shown[:, :, :WIDTH], SUPPORT)
    steps = shown[:, :, WIDTH:].unflatten(2, (STEPS, WIDTH))
    column = SUPPORT[1, :, 3].numpy()
    cuts = np.quantile(column, np.arange(1, STEPS + 1) / (STEPS + 1))
    np.testing.assert_array_equal(
        np.digitize(column, view.thresholds[1, 0, :, 3]), np.digitize(column, cuts)
    )
    between = np.abs(np.digitize(column[0], cuts) - np.digitize(column[1:], cuts))
    squares = (steps[1, :1, :, 3] - steps[1, 1:, :, 3]).square().sum(dim=1).numpy()
    np.testing.assert_allclose(squares, between * squares.max() / between.max(), atol=1e-9)
    torch.testing.assert_close(steps.square().sum(dim=2).mean(dim=1), torch.ones(3, WIDTH).double())


def test_thresholds_are_between_different_values() -> None:
    """What differs by rounding alone is one value; above the last one there is no threshold."""
    values = [0.1, 0.1 + 1e-9, 0.1, 0.2, 0.2, 0.4, 0.4, 0.4 - 1e-9, 0.4]
    column = torch.tensor(values, dtype=torch.float64)
    view = _view(column[None, :, None], torch.arange(9)[None] % 2)
    # n - 1 = 8 places of 9ths: 0.9, 1.8, 2.7, 3.6, 4.4, 5.3, 6.2 and 7.1, rounded down
    section = (3 - 5**0.5) / 2
    cuts = [0.1 + 0.1 * section] * 3 + [0.2 + 0.2 * section] * 2 + [torch.inf] * 3
    expected = torch.tensor(cuts, dtype=torch.float64)
    torch.testing.assert_close(view.thresholds[0, 0, :, 0], expected, rtol=0, atol=1e-8)
    shown = view(column[None, :, None])
    for noise in (-1e-8, 1e-8):
        noisy = view(column[None, :, None] + noise)
        torch.testing.assert_close(noisy, shown, rtol=0, atol=1e-6)


def test_decimals_that_are_asked_lie_on_no_threshold() -> None:
    """Of two values on a grid any third one may be asked, the one midway, too."""
    grid = torch.arange(100, dtype=torch.float64)
    pairs = torch.stack([grid[:1].expand(100), grid], dim=0)[None]  # 0 and each of the others
    thresholds = _view(pairs, torch.tensor([[0, 1]])).thresholds[0, 0, 0, 1:]
    distances = (thresholds[:, None] - grid).abs().amin(dim=1) / grid[1:]
    assert distances.min() > 1e-5  # relative to the column's spread


def test_two_values_are_no_numbers_even_if_rounding_makes_them_three() -> None:
    column = torch.tensor([0.3, 0.1 + 0.2, 1.0, 0.7 + 0.1 + 0.2], dtype=torch.float64)
    rounded = torch.stack([column, column.roll(1) + torch.arange(4) / 10], dim=1)
    assert numeric_coordinates(rounded).tolist() == [1]


def test_what_is_learned_in_chunks_is_the_same_in_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = _view()
    monkeypatch.setattr(table_view, "CHUNK", 3 * WIDTH * STEPS * 7)  # seven rows at a time
    with Largest() as largest:
        chunks = _view()
    assert largest.size <= SUPPORT.numel()  # of 60 rows the indicators are eight times as many
    torch.testing.assert_close(chunks.means, whole.means, rtol=0, atol=0)
    torch.testing.assert_close(chunks.weights, whole.weights)


class Largest(TorchFunctionMode):
    """Remembers the size of the largest tensor that was made."""

    size = 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the function returns
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.size = max(self.size, result.numel())
        return result


def test_steps_see_ranks_alone() -> None:
    plain, warped = (_view(values) for values in (SUPPORT, SUPPORT.exp()))
    torch.testing.assert_close(plain.means, warped.means)
    torch.testing.assert_close(plain.factors, warped.factors)
    torch.testing.assert_close(
        plain(SUPPORT)[:, :, WIDTH:] / plain.weights[:, :, EVERY.repeat(STEPS)],
        warped(SUPPORT.exp())[:, :, WIDTH:] / warped.weights[:, :, EVERY.repeat(STEPS)],
    )


def test_columns_weigh_by_what_classes_explain_of_them() -> None:
    """Against the formula, written out column by column."""
    shifted = SUPPORT.clone()
    shifted[:, :, 1] += 2 * CLASSES
    shifted[:, :, 4] = shifted[:, :, 4].abs() * (
        2 * (CLASSES == 1) + 0.2
    )  # a spread, not only a shift
    view = _view(shifted)
    unweighted = view(shifted) / torch.cat(
        [view.weights, view.weights[:, :, EVERY.repeat(STEPS)]], 2
    )
    shares = []
    for column in range(WIDTH):
        block = unweighted[0][:, [column, *range(WIDTH + column, WIDTH * (1 + STEPS), WIDTH)]]
        centred = block - block.mean(dim=0)
        between = sum(
            int((CLASSES[0] == k).sum()) * centred[CLASSES[0] == k].mean(dim=0).square().sum()
            for k in range(2)
        )
        by_chance = 1 / (ROWS - 1)
        share = float(between / centred.square().sum())
        shares.append(max(0.0, (share - by_chance) / (1 - by_chance)))
    squares = np.array(shares) + np.mean(shares)
    np.testing.assert_allclose(view.weights[0, 0], np.sqrt(squares / squares.mean()), atol=1e-9)
    assert set(view.weights[0, 0].topk(2).indices.tolist()) == {1, 4}
    torch.testing.assert_close(
        view.weights.square().mean(dim=2), torch.ones(3, 1, dtype=torch.float64)
    )


def test_columns_that_say_nothing_keep_half_of_their_square() -> None:
    noise = torch.randn(1, 400, 30, generator=stream(1))
    labels = (noise[:, :, 0] > 0).long()
    weights = _view(noise, labels).weights[0, 0].square()
    assert weights[0] > 10
    assert weights[1:].min() == pytest.approx(0.5)
    assert weights[1:].max() < 0.8


def test_without_two_rows_a_class_nothing_is_weighed() -> None:
    few = SUPPORT[:, :5]
    classes = torch.tensor([[0, 1, 2, 0, 1]]).expand(3, -1)
    assert (_view(few, classes, 3).weights == 1).all()
    assert (_view(few, classes % 2, 2).weights != 1).any()


@pytest.mark.parametrize("change", ["order", "names", "other episodes"])
def test_what_may_not_matter_does_not(change: str) -> None:
    expected = _view()(SUPPORT)[0]
    if change == "order":
        order = torch.randperm(ROWS, generator=stream(2))
        viewed = _view(SUPPORT[:, order], CLASSES[:, order])(SUPPORT)[0]
    elif change == "names":
        viewed = _view(SUPPORT, 1 - CLASSES)(SUPPORT)[0]
    else:
        viewed = _view(SUPPORT[:1], CLASSES[:1])(SUPPORT[:1])[0]
    torch.testing.assert_close(viewed, expected)


def test_queries_are_shown_one_by_one() -> None:
    view, queries = _view(), torch.randn(3, 7, WIDTH, generator=stream(3), dtype=torch.float64)
    alone = torch.cat([view(queries[:, [place]]) for place in range(7)], dim=1)
    assert torch.equal(view(queries), alone)


def test_constant_columns_have_no_steps_and_say_nothing() -> None:
    constant = SUPPORT.clone()
    constant[:, :, 2] = 0
    shown = _view(constant)(constant)
    assert shown.isfinite().all()
    assert (shown.unflatten(2, (1 + STEPS, WIDTH))[:, :, :, 2] == 0).all()


def test_only_numbers_get_steps_and_wide_tables_fewer() -> None:
    mixed = torch.tensor([[0.0, 1.0, 5.0, 2.0], [3.0, 1.0, 6.0, 2.5], [0.0, 1.0, 7.0, 2.0]])
    assert numeric_coordinates(mixed).tolist() == [2]
    assert [steps_per_column(count) for count in (0, 1, 256, 300, 2000, MAX_WIDTH + 1)] == [
        8,
        8,
        8,
        6,
        1,
        0,
    ]
    wide = torch.randn(1, 20, MAX_WIDTH + 1, generator=stream(4))
    assert _view(wide, CLASSES[:1, :20])(wide).shape == wide.shape
