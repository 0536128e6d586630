from pathlib import Path

import pytest

from helpers.services import ASKED, vector_classifier
from unitail import TailClassifier
from unitail.errors import CannotWrite, InvalidInput
from unitail.service.classifiers import NUMBER_FILE, load_classifiers


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vector_classifier().save(tmp_path_factory.mktemp("saved") / "My blobs.model")


def test_folders_are_served_by_their_name_or_another(folder: Path) -> None:
    lines: list[str] = []
    classifiers = load_classifiers(
        [str(folder), f"other={folder}"], device="cpu", on_line=lines.append
    )
    assert [served.newest.name for served in classifiers] == ["My-blobs", "other"]
    assert lines[1] == f"other: 3 classes from {folder}"


def test_examples_are_fitted(tmp_path: Path) -> None:
    table = tmp_path / "fruit.csv"
    rows = [f"{size},{label}" for size, label in zip((1, 1.2, 5, 5.5), "aabb", strict=True)]
    table.write_text("\n".join(["size,label", *rows]))
    classifiers = load_classifiers([str(table)], device="cpu")
    assert classifiers.find("fruit").newest.describe()["takes"] == "table"


def test_changes_are_saved_before_they_are_answered(folder: Path, tmp_path: Path) -> None:
    own = vector_classifier().save(tmp_path / "own")
    classifiers = load_classifiers([str(own)], device="cpu", save_changes=True)
    classifiers.find("own").changed(lambda classifier: classifier.add(ASKED[:2], [0, 1]))
    assert len(TailClassifier.load(own).kept_examples().labels) == 14


def test_numbers_of_versions_go_on_after_a_restart(folder: Path, tmp_path: Path) -> None:
    """A place that was listed before it must never remove another example after it."""
    own = TailClassifier.load(folder).save(tmp_path / "own")
    for number in (2, 3):
        served = load_classifiers([str(own)], device="cpu", save_changes=True).find("own")
        assert served.newest.number == number - 1
        served.put(served.changed(lambda classifier: classifier.add(ASKED[:1], [0])))
        assert served.newest.number == number
    assert load_classifiers([str(own)], device="cpu").find("own").newest.number == 3
    assert not [path for path in own.iterdir() if path.is_dir()]
    (own / NUMBER_FILE).write_text("{")
    with pytest.raises(InvalidInput, match=r"served_version\.json cannot be read"):
        load_classifiers([str(own)], device="cpu")


def test_what_cannot_be_served_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist: got no such folder or file"):
        load_classifiers([str(tmp_path / "nothing")])
    (tmp_path / "table.csv").write_text("size,label\n1,a\n2,b\n")
    with pytest.raises(InvalidInput, match="changes cannot be saved to examples"):
        load_classifiers([str(tmp_path / "table.csv")], save_changes=True)


def test_a_folder_that_could_not_be_replaced_later_is_told_at_the_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.path.ismount", lambda path: Path(path) == folder)
    load_classifiers([str(folder)], device="cpu")
    with pytest.raises(CannotWrite, match="a mount point, which cannot be renamed"):
        load_classifiers([str(folder)], device="cpu", save_changes=True)
