import sys

import pytest
import torch

from unitail.randomness import stream
from unitail.relational import neighbours
from unitail.relational.moments import LabelledRows
from unitail.relational.neighbours import Neighbourhoods


def rows(count: int = 300) -> LabelledRows:
    features = torch.randn(count, 3, generator=stream(0))
    return LabelledRows(features, torch.arange(count) % 4, 4)


def test_the_nearest_rows_are_found_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unitail.relational.moments.CHUNK", 100)
    support, queries = rows(), torch.randn(5, 3, generator=stream(1))
    found = Neighbourhoods(support, 1.0, 20).nearest(queries)
    expected = torch.cdist(queries, support.features).topk(20, largest=False).indices
    assert torch.equal(found.sort().values, expected.sort().values)


def test_a_row_is_not_its_own_neighbour() -> None:
    support, places = rows(), torch.tensor([3, 77])
    found = Neighbourhoods(support, 1.0, 20).nearest(support.features[places], places)
    assert found.shape == (2, 20)
    assert not (found == places[:, None]).any()
    few = LabelledRows(support.features[:4], support.class_indices[:4], 4)
    assert Neighbourhoods(few, 1.0).nearest(few.features, torch.arange(4)).shape == (4, 3)


def test_an_index_finds_nearly_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    support, queries = rows(2000), torch.randn(20, 3, generator=stream(1))
    exact = Neighbourhoods(support, 1.0, 10).nearest(queries)
    monkeypatch.setattr(neighbours, "MAX_EXACT", 100)
    monkeypatch.setattr(neighbours, "CELLS", 16)
    monkeypatch.setattr(neighbours, "PROBES", 8)
    searched = Neighbourhoods(support, 1.0, 10).nearest(queries)
    shared = [len(set(a) & set(b)) for a, b in zip(exact.tolist(), searched.tolist(), strict=True)]
    assert sum(shared) / 200 > 0.9


def test_where_cells_hold_too_few_all_rows_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    features = torch.randn(5000, 6, generator=stream(0))
    support = LabelledRows(features, torch.arange(5000) % 4, 4)
    queries, places = torch.randn(20, 6, generator=stream(1)), torch.arange(20)
    exact = Neighbourhoods(support, 1.0)
    expected, around = exact.nearest(queries), exact.nearest(features[:20], places)
    monkeypatch.setattr(neighbours, "MAX_EXACT", 1000)
    monkeypatch.setattr(neighbours, "CELLS", 64)
    monkeypatch.setattr(neighbours, "PROBES", 1)  # of some 80 rows, where 256 are asked
    searched = Neighbourhoods(support, 1.0)
    assert torch.equal(searched.nearest(queries), expected)
    assert torch.equal(searched.nearest(features[:20], places), around)
    monkeypatch.setattr(neighbours, "PROBES", 4)  # of some 300: only some cells hold too few
    some = Neighbourhoods(support, 1.0)
    for found in (some.nearest(queries), some.nearest(features[:20], places)):
        assert found.shape == (20, 256)
        assert all(len(set(each)) == 256 for each in found.tolist())


@pytest.mark.parametrize("distance", [1e3, 1e5])
def test_a_far_query_spoils_no_other(distance: float) -> None:
    support, queries = rows(), torch.randn(5, 3, generator=stream(1))
    asked = Neighbourhoods(support, 6.0)
    near = asked.votes(queries)
    queries[2] += distance
    votes = asked.votes(queries)
    others = [0, 1, 3, 4]
    assert torch.equal(votes[:, others], near[:, others])
    assert (votes[:, 2] == 0).all()  # out of every row's reach


def test_without_the_extra_all_rows_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    support, queries = rows(), torch.randn(4, 3, generator=stream(1))
    exact = Neighbourhoods(support, 1.0).nearest(queries)
    monkeypatch.setattr(neighbours, "MAX_EXACT", 100)
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert torch.equal(Neighbourhoods(support, 1.0).nearest(queries), exact)


@pytest.mark.parametrize("unit", [0.0, float("nan"), float("inf")])
def test_equal_rows_have_no_distances_and_say_how_often_each_class_is_there(unit: float) -> None:
    rows = LabelledRows(torch.ones(6, 2), torch.tensor([0, 0, 0, 0, 1, 1]), 2)
    votes = Neighbourhoods(rows, unit).votes(torch.ones(1, 2))
    assert torch.isfinite(votes).all()
    assert (votes[:, 0, 0] > votes[:, 0, 1]).all()
    assert (votes.sum(dim=2).abs() < 1e-6).all()
