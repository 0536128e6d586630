import pytest
import torch
from torch import Tensor

from unitail.randomness import PerEpisode, stream
from unitail.tasks.synthetic.graphs import (
    DEPTH,
    FUNCTIONS,
    MAX_PARENTS,
    STEPS,
    Function,
    Graph,
    draw_parents,
    draw_roots,
    levels_of,
    look_up,
    standardised,
)

EPISODES, ROWS, INPUTS, COUNT = 6, 40, 7, 5
INPUT = torch.randn(EPISODES, ROWS, INPUTS, generator=stream(0))
ALL = torch.ones(EPISODES, INPUTS, 1, dtype=torch.bool)
FIRST_TWO = ALL & (torch.arange(INPUTS)[:, None] < 2)


def _apply(function: Function, inputs: Tensor, allowed: Tensor = ALL) -> Tensor:
    return FUNCTIONS[function](inputs, allowed, COUNT, PerEpisode(EPISODES, stream(1)))


def test_standardised_columns_have_one_scale_and_constant_ones_are_zero() -> None:
    values = torch.cat([100 + 50 * INPUT, torch.full((EPISODES, ROWS, 1), 3.0)], dim=2)
    scaled = standardised(values)
    torch.testing.assert_close(
        scaled.mean(dim=1), torch.zeros(EPISODES, INPUTS + 1), atol=1e-5, rtol=0
    )
    torch.testing.assert_close(
        scaled[:, :, :INPUTS].std(dim=1, correction=0), torch.ones(EPISODES, INPUTS)
    )
    assert (scaled[:, :, INPUTS] == 0).all()


def test_a_function_has_one_to_four_parents_among_the_allowed() -> None:
    numbers = PerEpisode(200, stream(0))
    allowed = torch.ones(200, INPUTS, 1, dtype=torch.bool)
    allowed[:100, 3:] = False
    parents = draw_parents(allowed, COUNT, numbers)
    assert not (parents & ~allowed).any()
    counts = parents.sum(dim=1)
    assert set(counts[100:].unique().tolist()) == set(range(1, MAX_PARENTS + 1))
    assert set(counts[:100].unique().tolist()) == {1, 2, 3}


@pytest.mark.parametrize("function", Function)
def test_values_depend_on_the_allowed_inputs_alone(function: Function) -> None:
    other = INPUT.clone()
    other[:, :, 2:] = torch.randn(EPISODES, ROWS, INPUTS - 2, generator=stream(2))
    first, second = (_apply(function, values, FIRST_TWO) for values in (INPUT, other))
    assert first.shape == (EPISODES, ROWS, COUNT)
    assert torch.equal(first, second)
    assert not torch.equal(first, _apply(function, other.flip(2), FIRST_TWO))


@pytest.mark.parametrize("function", Function)
def test_a_row_depends_on_itself_alone_and_episodes_differ(function: Function) -> None:
    alike = INPUT[:1].expand(EPISODES, -1, -1)
    values = _apply(function, alike)
    assert torch.allclose(_apply(function, alike.flip(1)).flip(1), values, atol=1e-5)
    assert not torch.allclose(values[0], values[1])


def test_functions_are_of_their_kind() -> None:
    double = {function: _apply(function, 2 * INPUT) for function in Function}
    once = {function: _apply(function, INPUT) for function in Function}
    linear, product = Function.LINEAR, Function.PRODUCT
    torch.testing.assert_close(double[linear], 2 * once[linear])
    torch.testing.assert_close(double[product], 4 * once[product])
    zero, back = (_apply(Function.QUADRATIC, sign * INPUT) for sign in (0, -1))
    bend = once[Function.QUADRATIC] + back - 2 * zero  # 2 Σ w x²
    torch.testing.assert_close(
        double[Function.QUADRATIC] + _apply(Function.QUADRATIC, -2 * INPUT) - 2 * zero, 4 * bend
    )
    for function, most in ((Function.TREE, 2**DEPTH), (Function.STEPS, STEPS)):
        numbers = [len(column.unique()) for column in once[function].movedim(1, 2).flatten(0, 1)]
        assert 1 < max(numbers) <= most
    near = _apply(Function.SMOOTH, INPUT + 1e-3)
    assert (near - once[Function.SMOOTH]).abs().max() < 0.2
    assert len(once[Function.SMOOTH][0, :, 0].unique()) == ROWS


def test_levels_grow_with_values_and_are_looked_up() -> None:
    numbers = PerEpisode(EPISODES, stream(3))
    levels = levels_of(INPUT, 4, numbers)
    assert set(levels.unique().tolist()) == {0, 1, 2, 3}
    order = INPUT.argsort(dim=1)
    assert (levels.gather(1, order).diff(dim=1) >= 0).all()
    table = numbers.normal(4, INPUTS)
    assert look_up(table, levels)[2, 5, 3] == table[2, levels[2, 5, 3], 3]


def test_roots_are_independent_and_of_several_laws() -> None:
    roots = draw_roots(4000, 12, PerEpisode(1, stream(0)))[0]
    related = torch.corrcoef(roots.T) - torch.eye(12)
    assert related.abs().max() < 0.08
    kurtosis = standardised(roots[None])[0].pow(4).mean(dim=0)
    assert kurtosis.min() < 1.6  # two places
    assert ((kurtosis > 1.6) & (kurtosis < 2)).any()  # uniform
    assert kurtosis.max() > 2.7  # normal


def test_nodes_follow_the_roots_of_their_own_row() -> None:
    graph = Graph(roots=2, layers=((Function.LINEAR, 3), (Function.TREE, 4)))
    roots = torch.randn(2, 50, 2, generator=stream(0))
    nodes = graph.grow(roots, PerEpisode(2, stream(1)))
    assert nodes.shape == (2, 50, 9)
    torch.testing.assert_close(nodes[:, :, :2], standardised(roots))
    design = torch.cat([roots, torch.ones(2, 50, 1)], dim=2)
    residual = nodes[:, :, 2:5] - design @ torch.linalg.lstsq(design, nodes[:, :, 2:5]).solution
    assert residual.std(dim=1).max() < 0.35  # noise alone


def test_every_kind_and_size_of_a_graph_occurs() -> None:
    generator = stream(0)
    graphs = [Graph.draw(tuple(Function), generator) for _ in range(200)]
    assert {function for graph in graphs for function, _ in graph.layers} == set(Function)
    assert {len(graph.layers) for graph in graphs} == {1, 2, 3, 4}
    assert {graph.roots for graph in graphs} >= {1, 2, 3, 15}
