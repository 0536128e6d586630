from pathlib import Path

import pytest

from helpers import miniatures as mini
from unitail.datasets.class_folders import ClassFolders
from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    mini.touch(tmp_path, "a/1.png", "a/2.txt", "b/1.png", "c/1.png", ".d/1.png", "e/.hidden.png")
    contents = ClassFolders(only=("a", "b", "z")).read(tmp_path, Modality.IMAGE)
    assert contents.class_sizes == {"a": 1, "b": 1}
    assert contents.left_out == {"files of other kinds": 1, "class folders of other splits": 2}
    assert contents.absent == ["z"]


def test_a_missing_folder_and_a_missing_list_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"train cannot be read: got no such folder.*--root"):
        ClassFolders(folders=("train",)).read(tmp_path, Modality.IMAGE)
    with pytest.raises(
        InvalidInput, match=r"test\.txt cannot be read: got no such file.*`unitail data"
    ):
        ClassFolders(class_file="splits/test.txt").read(tmp_path, Modality.IMAGE)
