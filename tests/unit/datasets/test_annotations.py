import json
from pathlib import Path

import pytest

from helpers import miniatures as mini
from unitail.datasets.annotations import AnnotationFile
from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput

INDEX = AnnotationFile(file="train_2017_bboxes.json", min_images=2, max_images=3)


def test_sizes_count_images_not_boxes(tmp_path: Path) -> None:
    mini.inat(tmp_path, {5: 1, 6: 2, 7: 3, 8: 4}, dict.fromkeys((5, 6, 7, 8), "Aves"))
    contents = INDEX.read(tmp_path, Modality.IMAGE)
    assert contents.class_sizes == {"species 6": 2, "species 7": 3}
    assert contents.left_out == {"classes of too few or too many images": 2}
    for path, label in zip(contents.items, contents.labels, strict=True):
        assert label == f"species {Path(path).parent.name}"


def test_files_that_do_not_agree_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"bboxes\.json cannot be read: got FileNotFoundError"):
        INDEX.read(tmp_path, Modality.IMAGE)
    mini.inat(tmp_path, {5: 2}, {5: "Aves"})
    path = tmp_path / INDEX.file
    table = json.loads(path.read_text())
    path.write_text(json.dumps({**table, "categories": []}))
    with pytest.raises(
        InvalidInput, match=r"got KeyError: 5; allowed: a JSON file with consistent images"
    ):
        INDEX.read(tmp_path, Modality.IMAGE)
