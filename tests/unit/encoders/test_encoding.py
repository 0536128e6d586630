import os
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from unitail.encoders import encoding
from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Encoder, Failure, Modality
from unitail.encoders.encoding import encode_items
from unitail.encoders.hashing import content_hash
from unitail.errors import MissingExtra, Unreadable, UserError


class Letters(Encoder[str]):
    """Counts of a, b and c, of texts or files; "?" cannot be read, "!" gives no number."""

    modality = Modality.TEXT

    def __init__(self, fingerprint: str = "letters") -> None:
        super().__init__(name="Letters", width=3, fingerprint=fingerprint, batch_size=2)
        self.batches: list[list[str]] = []

    def read(self, item: object) -> str:
        text = item.read_text() if isinstance(item, Path) else str(item)
        if "?" in text:
            raise Unreadable("a question", got=text, allowed="statements")
        return text

    def embed(self, batch: Sequence[str]) -> NDArray[np.float32]:
        self.batches.append(list(batch))
        rows = [
            [np.inf if "!" in text else text.count(letter) for letter in "abc"] for text in batch
        ]
        return np.array(rows, np.float32)


class FileLetters(Letters):
    modality = Modality.IMAGE


@pytest.fixture
def cache(tmp_path: Path) -> FeatureCache:
    return FeatureCache(tmp_path / "cache")


def test_vectors_come_in_the_order_of_items() -> None:
    encoder = Letters()
    vectors = encode_items(encoder, ["a", "bb", "ccc", "ab", "c"])
    assert vectors.features.tolist() == [[1, 0, 0], [0, 2, 0], [0, 0, 3], [1, 1, 0], [0, 0, 1]]
    assert vectors.features.dtype == np.float32
    assert vectors.kept.tolist() == [0, 1, 2, 3, 4]
    assert (vectors.unreadable, vectors.num_cached) == ((), 0)
    assert encoder.batches == [["a", "bb"], ["ccc", "ab"], ["c"]]


def test_a_second_run_encodes_nothing(cache: FeatureCache, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("abc")
    items = [tmp_path / "one.txt", "a", "b", "c"]
    first = encode_items(Letters(), items, cache=cache)
    (tmp_path / "one.txt").rename(tmp_path / "other name.txt")
    again = Letters()
    second = encode_items(again, [tmp_path / "other name.txt", *items[1:]], cache=cache)
    assert again.batches == []
    assert (first.num_cached, second.num_cached) == (0, 4)
    np.testing.assert_array_equal(first.features, second.features)
    assert cache.info().encoders[0].name == "Letters"


def test_only_what_is_new_is_encoded(cache: FeatureCache) -> None:
    encode_items(Letters(), ["a", "b"], cache=cache)
    encoder = Letters()
    vectors = encode_items(encoder, ["c", "b", "aa"], cache=cache)
    assert encoder.batches == [["c", "aa"]]
    assert vectors.features.tolist() == [[0, 0, 1], [0, 1, 0], [2, 0, 0]]
    assert vectors.num_cached == 1


def test_another_encoder_encodes_anew(cache: FeatureCache) -> None:
    encode_items(Letters(), ["a"], cache=cache)
    other = Letters(fingerprint="other")
    encode_items(other, ["a"], cache=cache)
    assert other.batches == [["a"]]


def test_vectors_of_another_width_are_not_taken(cache: FeatureCache) -> None:
    encode_items(Letters(), ["a"], cache=cache)
    wider = Letters()
    wider.width = 4
    with pytest.raises(
        UserError, match=r"Letters returned an array of the wrong shape: got \(1, 3\)"
    ):
        encode_items(wider, ["a"], cache=cache)


def test_equal_items_are_encoded_once(
    cache: FeatureCache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(encoding, "WINDOW", 3)
    for name in ("x", "y"):
        (tmp_path / name).write_text("b")
    encoder = Letters()
    items = ["a", "a", tmp_path / "x", tmp_path / "y", "a", "c"]
    vectors = encode_items(encoder, items, cache=cache)
    assert encoder.batches == [["a", "b"], ["c"]]
    assert vectors.features[:, 0].tolist() == [1, 1, 0, 0, 1, 0]
    assert vectors.num_cached == 0  # the third a was known, but not from before


def test_unreadable_items_are_reported_with_their_places(
    cache: FeatureCache, tmp_path: Path
) -> None:
    gone = tmp_path / "gone.txt"
    for _ in range(2):  # nothing is remembered of them
        encoder = Letters()
        vectors = encode_items(encoder, ["?", "a", gone, "?", 3, "b"], cache=cache)
        assert vectors.kept.tolist() == [1, 5]
        assert vectors.features.tolist() == [[1, 0, 0], [0, 1, 0]]
        reasons = {failure.place: failure.reason for failure in vectors.unreadable}
        assert list(reasons) == [0, 2, 3, 4]
        assert reasons[0] == reasons[3] == "a question: got ?; allowed: statements"
        assert reasons[2].startswith("cannot be read: got No such file")
        assert "cannot be encoded: got int" in reasons[4]


def test_reasons_fit_all_files_of_equal_content(tmp_path: Path) -> None:
    class Naming(Letters):
        def read(self, item: object) -> str:
            raise Unreadable(f"{item} is bad", got="?", allowed="none")

    names = ["new\n\x1b[31m", "other"]
    for name in names:
        (tmp_path / name).write_text("same")
    vectors = encode_items(Naming(), [tmp_path / name for name in names])
    assert {failure.reason for failure in vectors.unreadable} == {"is bad: got ?; allowed: none"}


def test_nothing_readable_is_an_empty_array() -> None:
    for items in ([], ["?"]):
        vectors = encode_items(Letters(), items)
        assert vectors.features.shape == (0, 3)
        assert vectors.kept.tolist() == []


def test_vectors_that_are_not_finite_are_failures(cache: FeatureCache) -> None:
    vectors = encode_items(Letters(), ["a", "!", "b"], cache=cache)
    assert vectors.kept.tolist() == [0, 2]
    assert vectors.unreadable == (Failure(1, "Letters returned values that are not finite"),)
    assert cache.info().entries == 2


def test_a_failing_disk_is_a_failure(tmp_path: Path) -> None:
    class Failing(Letters):
        def read(self, item: object) -> str:
            raise OSError(5, "Input/output error")

    vectors = encode_items(Failing(), ["a"])
    assert vectors.unreadable[0].reason == "cannot be read: got Input/output error"


def test_a_file_that_changes_meanwhile_is_a_failure(cache: FeatureCache, tmp_path: Path) -> None:
    class Changing(Letters):
        def read(self, item: object) -> str:
            assert isinstance(item, Path)
            item.write_text("changed")
            return super().read(item)

    (tmp_path / "one").write_text("a")
    vectors = encode_items(Changing(), [tmp_path / "one"], cache=cache)
    assert "changed while it was read" in vectors.unreadable[0].reason
    assert cache.info().entries == 0


def test_other_errors_are_not_taken_for_bad_items() -> None:
    class Poor(Letters):
        def read(self, item: object) -> str:
            raise MissingExtra("pillow", "encoders", "no module")

    with pytest.raises(MissingExtra, match="pillow is not installed"):
        encode_items(Poor(), ["a"])


def test_a_run_that_is_broken_off_keeps_what_it_has_done(cache: FeatureCache) -> None:
    class Breaking(Letters):
        def embed(self, batch: Sequence[str]) -> NDArray[np.float32]:
            if "c" in batch:
                raise KeyboardInterrupt
            return super().embed(batch)

    with pytest.raises(KeyboardInterrupt):
        encode_items(Breaking(), ["a", "b", "c", "ab"], cache=cache)
    encoder = Letters()
    assert encode_items(encoder, ["a", "b", "c", "ab"], cache=cache).num_cached == 2
    assert encoder.batches == [["c", "ab"]]


def test_progress_counts_every_item_once(
    cache: FeatureCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "WINDOW", 5)
    encode_items(Letters(), ["a"], cache=cache)
    progress: list[tuple[int, int]] = []
    items = ["a", "b", "?", "b", "c", "abc", "b", "aa"]
    encode_items(Letters(), items, cache=cache, on_progress=lambda *now: progress.append(now))
    assert progress == [(done, 8) for done in (1, 4, 5, 6, 8)]


def test_a_string_is_a_file_for_other_encoders(tmp_path: Path, cache: FeatureCache) -> None:
    (tmp_path / "one").write_text("a")
    vectors = encode_items(FileLetters(), [str(tmp_path / "one")], cache=cache)
    (tmp_path / "one").write_text("b")
    later = encode_items(FileLetters(), [str(tmp_path / "one")], cache=cache)
    assert [vectors.features.tolist(), later.features.tolist()] == [[[1, 0, 0]], [[0, 1, 0]]]


def test_the_next_batch_is_read_while_one_is_embedded() -> None:
    ahead = threading.Event()

    class Waiting(Letters):
        def read(self, item: object) -> str:
            if item == "c":
                ahead.set()
            return str(item)

        def embed(self, batch: Sequence[str]) -> NDArray[np.float32]:
            assert ahead.wait(timeout=120)
            return super().embed(batch)

    assert len(encode_items(Waiting(), ["a", "b", "c"]).kept) == 3


def test_a_broken_cache_does_not_stop_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = FeatureCache(tmp_path / "file")
    vectors = encode_items(Letters(), ["a", "b", "c"], cache=cache)
    assert vectors.features.tolist() == np.eye(3).tolist()
    assert cache.trouble is not None


def test_every_file_is_hashed_once_and_a_change_of_equal_size_is_seen(
    cache: FeatureCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = list[object]()

    def counted(item: object) -> str:
        hashed.append(item)
        return content_hash(item)

    class Changing(Letters):
        def read(self, item: object) -> str:
            assert isinstance(item, Path)
            if item.name == "two":
                item.write_text("x")
            return super().read(item)

    monkeypatch.setattr(encoding, "content_hash", counted)
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("a")
    two.write_text("b")
    os.utime(two, ns=(0, 0))
    vectors = encode_items(Changing(), [one, two], cache=cache)
    assert sorted(map(str, hashed)) == [str(one), str(two), str(two)]
    assert vectors.hashes == (content_hash(one),)
    assert "changed while it was read" in vectors.unreadable[0].reason
    [first, second] = vectors.split([1, 1])
    assert (first.hashes, second.hashes) == (vectors.hashes, ())
