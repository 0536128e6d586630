from pathlib import Path

import pytest

from helpers import miniatures as mini
from unitail.datasets.catalogue import find_entry
from unitail.datasets.intents import IntentFiles
from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput

SHAPE = IntentFiles(name="train_5")
CLASSES = {"banking77": 77, "clinc150": 150, "hwu64": 64}


def write(root: Path, texts: str, labels: str) -> None:
    (root / "train_5").mkdir()
    (root / "train_5" / "seq.in").write_text(texts, encoding="utf-8")
    (root / "train_5" / "label").write_text(labels, encoding="utf-8")


def test_a_line_of_one_file_belongs_to_that_line_of_the_other(tmp_path: Path) -> None:
    write(tmp_path, "#1 is lost\na card\u2028please\n\nlost it", "lost\ncard\ncard\nlost\n")
    contents = SHAPE.read(tmp_path, Modality.TEXT)
    assert contents.items == ["#1 is lost", "a card\u2028please", "lost it"]
    assert contents.labels == ["lost", "card", "lost"]
    assert contents.left_out == {"lines without a text or a label": 1}


def test_a_table_is_read_where_there_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "train_5.csv").write_text("text,category\nWhere?,lost\n")
    contents = SHAPE.read(tmp_path, Modality.TEXT)
    assert (contents.items, contents.labels) == (["Where?"], ["lost"])


def test_files_of_other_lengths_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "one\ntwo\n", "a\n")
    with pytest.raises(InvalidInput, match=r"2 lines in seq\.in, 1 in label"):
        SHAPE.read(tmp_path, Modality.TEXT)


def test_a_folder_without_its_files_is_reported(tmp_path: Path) -> None:
    (tmp_path / "train_5").mkdir()
    with pytest.raises(InvalidInput, match=r"seq\.in cannot be read.*unitail data info"):
        SHAPE.read(tmp_path, Modality.TEXT)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("split", ["test", "train_5", "train_10", "train"])
def test_every_split_of_the_catalogue_is_its_own_file(
    tmp_path: Path, name: str, split: str
) -> None:
    mini.intents(tmp_path)
    entry = find_entry(name)
    assert entry.split() is entry.split("test")
    [part] = entry.parts(tmp_path, entry.split(split))
    contents = entry.read(part, entry.split(split), any_version=True)
    texts = [f"Lost it, {split}", f"A card, {split}", f"Gone, {split}"]
    assert (contents.items, contents.labels) == (texts, ["lost", "card", "lost"])


@pytest.mark.parametrize("name", CLASSES)
def test_files_of_few_examples_have_as_many_of_each_class_as_they_say(name: str) -> None:
    splits = {split.name: split for split in find_entry(name).splits}
    assert {split.classes for split in splits.values()} == {CLASSES[name]}
    assert splits["train_5"].rows == 5 * CLASSES[name]
    assert splits["train_10"].rows == 10 * CLASSES[name]
