import numpy as np

from unitail.studio.fitted import MAX_POOLED, POOL, choose_pool
from unitail.studio.latest import Labelled


def test_a_pool_is_of_items_without_labels_and_stays_nearly_the_same() -> None:
    known = np.arange(900)[::2]
    few = Labelled(0, (2, 4), (1, 2), frozenset({6}), ("chosen",) * 2)
    first = choose_pool(known, few)
    assert (len(set(first.tolist())), len(first)) == (POOL, POOL)
    assert not {2, 4, 6} & set(first.tolist())
    assert set(first.tolist()) <= set(known.tolist())
    taken = int(first[0])
    second = choose_pool(
        known, Labelled(1, (2, 4, taken), (1, 2, 1), frozenset({6}), ("chosen",) * 3)
    )
    assert second[:-1].tolist() == first[1:].tolist()
    assert len(choose_pool(known[:21], few)) == 0  # hardly any are left
    many = tuple(range(0, 2 * MAX_POOLED + 2, 2))
    assert (
        len(
            choose_pool(
                np.arange(2000), Labelled(2, many, many, frozenset(), ("chosen",) * len(many))
            )
        )
        == 0
    )
    assert (
        len(
            choose_pool(
                np.arange(2000),
                Labelled(2, many[1:], many[1:], frozenset(), ("chosen",) * (len(many) - 1)),
            )
        )
        == POOL
    )
