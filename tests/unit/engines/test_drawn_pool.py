from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from unitail.engines.chunk_items import Reading
from unitail.engines.drawn_pool import drawn_pool
from unitail.engines.engine import Chunk
from unitail.engines.rows import JobRows, open_rows
from unitail.inputs.items import ReadOptions


def _rows(path: Path, texts: list[str]) -> JobRows:
    path.write_text("\n".join(["text,n", *(f"{text},{n}" for n, text in enumerate(texts))]))
    return open_rows([str(path)], ReadOptions(content_column="text"))


def _drawn(rows: JobRows, count: int, seed: int = 0) -> list[str]:
    with drawn_pool(rows, count, seed) as items:
        return list(items.items)


def test_neither_order_nor_pieces_nor_repeats_have_a_say(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(300)]
    drawn = _drawn(_rows(tmp_path / "a.csv", texts), 20)
    assert len(set(drawn)) == 20
    assert set(drawn) < set(texts)
    backwards = [*texts[::-1], *texts[:150]]
    assert _drawn(_rows(tmp_path / "b.csv", backwards), 20) == drawn
    assert _drawn(_rows(tmp_path / "a.csv", texts), 20, seed=1) != drawn


def test_no_more_than_the_drawn_rows_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = list[Any]()

    @contextmanager
    def items(_: Reading, chunk: Chunk) -> Iterator[None]:
        taken.append(chunk.rows)
        yield

    monkeypatch.setattr(Reading, "items", items)
    with drawn_pool(_rows(tmp_path / "a.csv", [f"{n:0900}" for n in range(500)]), 20):
        assert taken[0].num_rows == 20
        assert taken[0].get_total_buffer_size() < 20 * 1000


def test_a_small_pool_is_taken_whole(tmp_path: Path) -> None:
    assert set(_drawn(_rows(tmp_path / "a.csv", ["a", "b", "a"]), 20)) == {"a", "b"}


def test_every_row_is_as_likely_as_another(tmp_path: Path) -> None:
    """Of 300 rows 100 are drawn: of the first third, too, whatever the order."""
    drawn = _drawn(_rows(tmp_path / "a.csv", [f"{n}" for n in range(300)]), 100)
    thirds = [sum(number // 100 == third for number in map(int, drawn)) for third in range(3)]
    assert all(22 <= each <= 45 for each in thirds)
