"""The plain definition of a block agrees with its docstring."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from helpers.relational_blocks import BlockInputs, random_block, random_inputs
from unitail.randomness import stream
from unitail.relational.block import GATE_SCALE, RelationalBlock, log_shares
from unitail.relational.regressions import NUM_OPERATORS

BLOCK = random_block().requires_grad_(False)


def updated(inputs: BlockInputs, block: RelationalBlock = BLOCK) -> Tensor:
    return block(inputs.z, inputs.seen, inputs.labels, inputs.size, inputs.relations)


def silent(*names: str) -> RelationalBlock:
    """Return the same block with some of its layers set to zero."""
    block = random_block().requires_grad_(False)
    for name in names:
        layer = getattr(block, name)
        layer.weight.zero_()
        layer.bias.zero_()
    return block


def reordered(inputs: BlockInputs, order: list[int]) -> BlockInputs:
    """Show the labelled examples in another order; those that are not follow."""
    n = inputs.labels.shape[1]
    places = [*order, *range(n, inputs.seen.shape[1])]
    relations = replace(
        inputs.relations,
        channels=inputs.relations.channels[..., places],
        operators=inputs.relations.operators[..., order],
    )
    seen, labels = inputs.seen[:, places], inputs.labels[:, order]
    return replace(inputs, seen=seen, labels=labels, relations=relations)


def test_classes_are_treated_alike() -> None:
    inputs = random_inputs()
    names = [2, 0, 1]
    renamed = replace(
        inputs,
        z=inputs.z[:, :, names],
        seen=inputs.seen[:, :, names],
        labels=inputs.labels[:, :, names],
    )
    torch.testing.assert_close(updated(renamed), updated(inputs)[:, :, names])


def test_the_order_of_examples_does_not_matter() -> None:
    inputs = random_inputs()
    torch.testing.assert_close(updated(reordered(inputs, [3, 1, 5, 0, 2, 4])), updated(inputs))


def test_each_row_and_each_episode_is_updated_by_itself() -> None:
    inputs = random_inputs()
    relations = replace(
        inputs.relations,
        channels=inputs.relations.channels[1:, :, 2:3],
        operators=inputs.relations.operators[1:, :, 2:3],
    )
    one = BlockInputs(
        inputs.z[1:, 2:3], inputs.seen[1:], inputs.labels[1:], inputs.size[1:], relations
    )
    torch.testing.assert_close(updated(one), updated(inputs)[1:, 2:3])


def test_a_silent_block_changes_nothing() -> None:
    inputs = random_inputs()
    assert torch.equal(updated(inputs, silent("out", "mlp_out")), inputs.z)


def test_operators_carry_the_label() -> None:
    """Labels of two examples are swapped: only operators carry the change."""
    inputs, block = random_inputs((2, 2), episodes=1), silent("mlp_out", "head_values", "gate")
    classes = inputs.labels[0].argmax(dim=1).tolist()
    one, other = classes.index(0), classes.index(1)
    labels = inputs.labels.clone()
    labels[0, [one, other]] = inputs.labels[0, [other, one]]
    change = updated(replace(inputs, labels=labels), block) - updated(inputs, block)
    weight = block.operator_values.weight[:, -2:].sum(dim=1)  # both y and y - p change by as much
    operators = inputs.relations.operators[0]  # (operators, rows, n)
    moved = torch.zeros(4, 2, dtype=torch.float64)
    moved[one], moved[other] = torch.tensor([-1.0, 1.0]), torch.tensor([1.0, -1.0])
    carried = torch.einsum("oij,jk->iko", operators, moved)  # (rows, K, operators)
    expected = (carried.unsqueeze(-1) * weight.view(len(operators), -1)).flatten(2)
    torch.testing.assert_close(change[0], expected @ block.out.weight[:, -expected.shape[2] :].T)


def test_heads_give_shares_that_the_relations_decide() -> None:
    inputs = random_inputs()
    w = BLOCK.gated_weights(torch.randn(2, 5, generator=stream(1), dtype=torch.float64))
    shares = BLOCK.attend(w, inputs.relations)
    torch.testing.assert_close(shares.sum(dim=-1), torch.ones_like(shares[..., 0]))
    scores = sum(
        w[:, :, number, None, None] * inputs.relations.channels[:, None, number]
        for number in range(w.shape[2])
    )
    torch.testing.assert_close(shares, scores.softmax(dim=-1))


def test_the_summary_bends_weights_one_by_one_and_stretches_all_of_a_head() -> None:
    c = torch.randn(2, 5, generator=stream(1), dtype=torch.float64)
    gates = GATE_SCALE * (c @ BLOCK.gate.weight.T + BLOCK.gate.bias)
    for episode in range(2):
        for head, own in enumerate(gates[episode].chunk(BLOCK.heads)):
            expected = (BLOCK.relation_weights[head] + own[:-1]) * own[-1].exp()
            torch.testing.assert_close(BLOCK.gated_weights(c)[episode, head], expected)


def test_queries_that_are_seen_speak_with_their_belief() -> None:
    """A query whose belief is one-hot has the same values as an example with that label.

    But the summary and the operators cover labelled examples only.
    """
    block = silent("evidence")
    block.belief.weight.copy_(1e3 * torch.eye(6, dtype=torch.float64)[:1])  # beliefs are plain
    inputs = random_inputs((2, 1, 1), seen_queries=1, episodes=1)
    belief = block.belief(block.norm(inputs.seen[:, -1:])).squeeze(-1).softmax(dim=-1)
    answers = []
    for labels in (inputs.labels, torch.cat([inputs.labels, belief.round()], dim=1)):
        operators = torch.zeros(1, NUM_OPERATORS, 4, labels.shape[1], dtype=torch.float64)
        relations = replace(inputs.relations, operators=operators)
        answers.append(updated(replace(inputs, labels=labels, relations=relations), block))
    torch.testing.assert_close(*answers)


@pytest.mark.parametrize("factor", [1, 7])
def test_masses_count_by_their_shares(factor: int) -> None:
    masses = factor * torch.tensor([[[1.0], [2.0], [3.0]]])
    expected = torch.tensor([[[0.5], [1.0], [1.5]]]).log()
    torch.testing.assert_close(log_shares(masses), expected)
