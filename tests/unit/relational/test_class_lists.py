"""Few classes of a row stand for all: sums, beliefs, and what is taken and given back."""

import torch
from torch import Tensor

from helpers.relational_blocks import CONFIG, random_block, random_inputs
from unitail.randomness import stream
from unitail.relational.block import EVERY_CLASS, ClassList
from unitail.relational.class_lists import FewClasses, most_promising
from unitail.relational.large.shortlist import cache_few, update_few


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=stream(seed), dtype=torch.float64)


def test_the_others_of_a_row_count_as_often_as_they_are() -> None:
    few = FewClasses(torch.tensor([[[3, 0], [1, 4]]]), 6)
    scores = normal(1, 2, 3)
    everywhere = few.to_classes(scores)
    p, log_p = few.softmax(scores)
    torch.testing.assert_close(few.to_classes(p), everywhere.softmax(dim=2))
    torch.testing.assert_close(few.to_classes(log_p), everywhere.log_softmax(dim=2))
    torch.testing.assert_close(few.total(scores), everywhere.sum(dim=2))
    by_class = few.by_class(scores.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(by_class, everywhere.sum(dim=1))
    values = normal(1, 6, 2, seed=1)
    taken = few.gather(values)
    torch.testing.assert_close(few.total(taken.mT), values.sum(dim=1)[:, None].expand(1, 2, 2))
    assert torch.equal(taken[0, 0, 1], values[0, 0])


def test_a_labelled_row_has_its_own_class_first() -> None:
    few = FewClasses.best(normal(1, 6, 9), 3, torch.tensor([[8, 7, 6]]))
    assert few.classes[0, :3, 0].tolist() == [8, 7, 6]
    assert all(len(set(each)) == 3 for each in few.classes[0].tolist())
    best = normal(1, 6, 9)[0, 3:].topk(3).indices
    assert torch.equal(few.classes[0, 3:], best)


def test_classes_as_good_as_those_left_out_are_left_out_too() -> None:
    answers = torch.tensor([[[5.0, 4.0, 4.0, 4.0, 1.0], [1.0, 2.0, 3.0, 4.0, 5.0]]])
    few = FewClasses.best(answers, 2)
    assert few.apart is not None
    assert few.apart.tolist() == [[[True, False], [True, True]]]
    values = normal(1, 5, 2, seed=1)
    taken = few.gather(values)
    torch.testing.assert_close(few.total(taken.mT), values.sum(dim=1)[:, None].expand(1, 2, 2))
    torch.testing.assert_close(taken[0, 0, 0], values[0, 0])
    for state in taken[0, 0, 1:]:
        torch.testing.assert_close(state, values[0, 1:].mean(dim=0))
    torch.testing.assert_close(taken[0, 1, 2], values[0, :3].mean(dim=0))
    assert [each.apart for each in FewClasses.best(answers, 4).split(1)] == [None, None]
    first, second = few.split(1)
    assert first.apart is not None
    assert second.apart is not None
    assert first.apart.tolist() == [[[True, False]]]
    assert second.apart.tolist() == [[[True, True]]]


def test_what_is_taken_of_rows_and_given_back_is_that_of_the_classes_on_the_list() -> None:
    few = FewClasses(torch.tensor([[[3, 0], [1, 4]]]), 6)
    values = normal(1, 2, 3, 6)
    taken = few.to_states(values)
    torch.testing.assert_close(few.total(taken), values.sum(dim=-1))
    back = few.to_classes(taken)
    assert torch.equal(back[0, 0][:, [3, 0]], values[0, 0][:, [3, 0]])
    torch.testing.assert_close(back[0, 1, :, 5], values[0, 1][:, [0, 2, 3, 5]].mean(dim=1))


def test_classes_that_are_not_told_apart_take_the_mean_of_the_others() -> None:
    few = FewClasses(torch.tensor([[[3, 0]]]), 5, torch.tensor([[[True, False]]]))
    values = normal(1, 1, 2, 5)
    taken = few.to_states(values)[0, 0]
    rest = values[0, 0][:, [0, 1, 2, 4]].mean(dim=1)
    torch.testing.assert_close(taken, torch.stack([values[0, 0, :, 3], rest, rest], dim=1))
    by_class = normal(1, 5, 2, seed=1)
    of = few.gather(by_class)[0, 0]
    rest = by_class[0, [0, 1, 2, 4]].mean(dim=0)
    torch.testing.assert_close(of, torch.stack([by_class[0, 3], rest, rest]))


def test_every_class_is_a_list_that_leaves_nothing_out() -> None:
    few = FewClasses(torch.tensor([[[0, 1, 2]]]), 4)
    scores, values = normal(1, 1, 4), normal(1, 4, 3)

    def values_of(class_list: ClassList) -> list[Tensor]:
        p, log_p = class_list.softmax(scores)
        rows = (
            class_list.total(scores),
            class_list.to_states(scores),
            class_list.to_classes(scores),
        )
        return [p, log_p, class_list.mean_weights(p), class_list.gather(values), *rows]

    torch.testing.assert_close(values_of(few), values_of(EVERY_CLASS))


def test_the_mean_and_the_likely_state_count_others_as_often_as_they_are() -> None:
    few = FewClasses(torch.tensor([[[3, 0], [1, 4]]]), 6)
    scores, states = normal(1, 2, 3), normal(1, 2, 3, 5, seed=1)
    p, _ = few.softmax(scores)
    everywhere = few.to_classes(states.transpose(2, 3)).transpose(2, 3)
    expected = EVERY_CLASS.mean_weights(few.to_classes(p)) @ everywhere
    torch.testing.assert_close(few.mean_weights(p) @ states, expected)


def test_blocks_do_with_few_classes_as_shortlists_do() -> None:
    """The same states by another computation: values are expanded to all classes."""
    block = random_block(1).requires_grad_(False)
    inputs = random_inputs([2, 3, 1, 2, 2, 1], seen_queries=0, rows=4, episodes=2, seed=3)
    classes = inputs.labels.argmax(dim=2)
    ways = inputs.labels.shape[2]
    seen = FewClasses.best(normal(*inputs.labels.shape, seed=5), 3, classes)
    rows = FewClasses.best(normal(2, 4, ways, seed=6), 2)
    z = normal(2, 4, rows.size + 1, CONFIG.channels, seed=7)
    tokens = normal(2, classes.shape[1], seen.size + 1, CONFIG.channels, seed=8)
    cache = block.cache(tokens, inputs.labels, inputs.size, seen)
    fast = block.update(z, cache, inputs.relations, rows)
    few = cache_few(block, tokens, seen, classes, inputs.size)
    exact = {"rtol": 0, "atol": 1e-10}
    torch.testing.assert_close(fast, update_few(block, z, rows, few, inputs.relations), **exact)


def test_a_class_is_hopeful_by_first_answers_or_by_a_row_that_is_near() -> None:
    first = torch.tensor([[9.0, 0.0, 0.1, 0.2, 0.3], [1.0, 1.0, 1.0, 1.0, 1.0]])
    nearest = torch.tensor([[0.0, 0.9, 0.1, 0.2, 0.1], [0.0, 0.0, 0.9, 0.1, 0.2]])
    hopes = most_promising(first, nearest)
    assert set(hopes[0].topk(2).indices.tolist()) == {0, 1}
    assert hopes[1].argmax() == 2
    torch.testing.assert_close(most_promising(7 * first - 3, nearest / 2), hopes)
