import sys

import numpy as np
import pytest
import torch
from torch import Tensor

from unitail.randomness import stream
from unitail.relational.large import neighbours
from unitail.relational.large.neighbours import Neighbourhoods


def rows(count: int = 300) -> Tensor:
    return torch.randn(count, 3, generator=stream(0))


def test_the_nearest_rows_are_found_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unitail.relational.large.neighbours.NUMBERS_AT_ONCE", 100)
    support, queries = rows(), torch.randn(5, 3, generator=stream(1))
    nearest = Neighbourhoods(support, 20).nearest(queries)
    expected = torch.cdist(queries, support).topk(20, largest=False).indices
    assert torch.equal(nearest.sort().values, expected.sort().values)


def test_a_row_is_not_its_own_neighbour() -> None:
    support, places = rows(), torch.tensor([3, 77])
    nearest = Neighbourhoods(support, 20).nearest(support[places], places)
    assert nearest.shape == (2, 20)
    assert not (nearest == places[:, None]).any()
    few = support[:4]
    assert Neighbourhoods(few, 256).nearest(few, torch.arange(4)).shape == (4, 3)


def test_an_index_finds_nearly_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    support, queries = rows(2000), torch.randn(20, 3, generator=stream(1))
    exact = Neighbourhoods(support, 10).nearest(queries)
    monkeypatch.setattr(neighbours, "MAX_SEARCHED", 100)
    monkeypatch.setattr(neighbours, "CELLS", 16)
    monkeypatch.setattr(neighbours, "PROBES", 8)
    searched = Neighbourhoods(support, 10).nearest(queries)
    shared = [len(set(a) & set(b)) for a, b in zip(exact.tolist(), searched.tolist(), strict=True)]
    assert sum(shared) / 200 > 0.9


def test_where_cells_hold_too_few_all_rows_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    features = torch.randn(5000, 6, generator=stream(0))
    support = features
    queries, places = torch.randn(20, 6, generator=stream(1)), torch.arange(20)
    exact = Neighbourhoods(support, 256)
    expected, around = exact.nearest(queries), exact.nearest(features[:20], places)
    monkeypatch.setattr(neighbours, "MAX_SEARCHED", 1000)
    monkeypatch.setattr(neighbours, "CELLS", 64)
    monkeypatch.setattr(neighbours, "PROBES", 1)  # of some 80 rows, where 256 are asked
    searched = Neighbourhoods(support, 256)
    assert torch.equal(searched.nearest(queries), expected)
    assert torch.equal(searched.nearest(features[:20], places), around)
    monkeypatch.setattr(neighbours, "PROBES", 4)  # of some 300: only some cells hold too few
    some = Neighbourhoods(support, 256)
    for nearest in (some.nearest(queries), some.nearest(features[:20], places)):
        assert nearest.shape == (20, 256)
        assert all(len(set(each)) == 256 for each in nearest.tolist())


@pytest.mark.parametrize("indices", [[0, 3, 1], [3, 1, 2]])
def test_where_an_index_misses_the_query_the_farthest_row_is_dropped(
    indices: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Index:
        def search(self, queries: np.ndarray, count: int) -> tuple[None, np.ndarray]:
            assert (len(queries), count) == (1, 3)
            return None, np.array([indices])

    monkeypatch.setattr(Neighbourhoods, "_index", Index())
    support = rows(5)
    nearest = Neighbourhoods(support, 2).nearest(support[:1], torch.tensor([0]))
    assert nearest.tolist() == [[3, 1]]


def test_without_the_extra_all_rows_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    support, queries = rows(), torch.randn(4, 3, generator=stream(1))
    exact = Neighbourhoods(support, 256).nearest(queries)
    monkeypatch.setattr(neighbours, "MAX_SEARCHED", 100)
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert torch.equal(Neighbourhoods(support, 256).nearest(queries), exact)
