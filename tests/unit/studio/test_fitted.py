from collections.abc import Sequence

import numpy as np

from unitail.studio.fitted import MAX_POOLED, MIN_OF_CLASS, POOL, _most_telling, choose_pool
from unitail.studio.state import Labelled


def labelled(
    places: Sequence[int], class_ids: Sequence[int], origin: str = "chosen", aside: int = 6
) -> Labelled:
    count = len(places)
    return Labelled(
        0,
        tuple(places),
        tuple(class_ids),
        frozenset({aside}),
        (origin,) * count,
        tuple(range(1, count + 1)),
    )


def test_a_pool_is_of_items_without_labels_and_stays_nearly_the_same() -> None:
    known = np.arange(900)[::2]
    few = labelled((2, 4), (1, 2))
    first = choose_pool(known, few)
    assert (len(set(first.tolist())), len(first)) == (POOL, POOL)
    assert not {2, 4, 6} & set(first.tolist())
    assert set(first.tolist()) <= set(known.tolist())
    taken = int(first[0])
    second = choose_pool(known, labelled((2, 4, taken), (1, 2, 1)))
    assert second[:-1].tolist() == first[1:].tolist()
    assert len(choose_pool(known[:21], few)) == 0  # hardly any are left
    many = range(0, 2 * MAX_POOLED + 2, 2)
    assert len(choose_pool(np.arange(2000), labelled(many, many))) == 0
    assert len(choose_pool(np.arange(2000), labelled(many[1:], many[1:]))) == POOL


def chosen(named: Labelled, size: int) -> list[int]:
    return _most_telling(named, range(len(named.places)), size)


def test_of_many_labels_the_newest_are_read() -> None:
    named = labelled(range(100), [0, 1] * 50)
    assert chosen(named, 30) == list(range(70, 100))
    older_again = Labelled(0, named.places, named.class_ids, frozenset(), named.origins, (1,) * 100)
    assert len(chosen(older_again, 30)) == 30


def test_each_class_keeps_some_labels_however_old() -> None:
    named = labelled(range(100), [0] * 10 + [1] + [2] * 89)
    rows = chosen(named, 30)
    assert rows == [*range(10 - MIN_OF_CLASS, 11), *range(76, 100)]
    assert chosen(named, 1) == [9, 10, 99]  # at least one of each


def test_labels_confirmed_at_once_come_last_and_as_many_of_each_class() -> None:
    own = labelled(range(20), [0, 1] * 10)
    class_ids = (*own.class_ids, *[0] * 60, *[1] * 20)
    named = Labelled(
        0,
        tuple(range(100)),
        class_ids,
        frozenset(),
        own.origins + ("confirmed",) * 80,
        tuple(range(1, 101)),
    )
    rows = chosen(named, 50)
    assert rows[:20] == list(range(20))
    assert [class_ids[row] for row in rows[20:]].count(0) == 15
