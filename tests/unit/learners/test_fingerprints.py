import shutil
from pathlib import Path

import pytest

from unitail.learners import fingerprints, pretrained
from unitail.learners.checkpoint import CONFIG_FILE, WEIGHTS_FILE, save_model
from unitail.learners.fingerprints import (
    CLASSIFIER_PACKAGES,
    MODEL_PACKAGES,
    PACKAGE,
    constants,
    constants_hash,
    default_stamp,
    model_stamp,
)
from unitail.learners.pretrained import write_manifest
from unitail.relational import joint_share
from unitail.relational.config import PRESETS
from unitail.relational.model import Relational

SOURCE = '''"""About it."""
import math
HALF = 0.5
"""What it is."""
A, B = 1, 2
TABLE: dict[str, int] = {"a": 1}
LATER: int
small = 3
def f() -> None:
    INSIDE = 4
'''


def test_constants_are_what_stands_at_the_head_of_a_module() -> None:
    assert list(constants(SOURCE)) == ["HALF = 0.5", "(A, B) = (1, 2)", "TABLE = {'a': 1}"]


def test_values_count_and_neither_words_nor_places_do(tmp_path: Path) -> None:
    def stamp(name: str, **files: str) -> str:
        for module, text in files.items():
            path = tmp_path / name / "room" / f"{module}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return constants_hash(("room",), tmp_path / name)

    whole = stamp("whole", one=SOURCE)
    assert stamp("again", one=SOURCE.replace("About", "Of")) == whole
    moved = SOURCE.replace("HALF = 0.5", "")
    assert stamp("moved", one=moved, two="HALF = 0.5") == whole
    assert stamp("other", one=SOURCE.replace("0.5", "0.6")) != whole
    assert stamp("fewer", one=moved) != whole


def test_the_constants_of_joint_shares_are_among_them() -> None:
    named = set(constants(Path(str(joint_share.__file__)).read_text()))
    assert {line.split(" = ")[0] for line in named} >= {"DOUBT", "MARGIN"}
    rooms = {*CLASSIFIER_PACKAGES, *MODEL_PACKAGES.values(), "baselines"}
    assert all(any((PACKAGE / room).rglob("*.py")) for room in rooms), "rooms move"


def test_stamps_change_with_weights_configuration_and_constants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_model(Relational(PRESETS["tiny"], seed=0), tmp_path / "default")
    write_manifest(folder)
    monkeypatch.setattr(pretrained, "FOLDER", folder)
    other = save_model(Relational(PRESETS["tiny"], seed=1), tmp_path / "other")
    stamps = [default_stamp()]
    assert model_stamp(other) != model_stamp(folder)
    shutil.copytree(other, folder, dirs_exist_ok=True)
    stamps.append(default_stamp())
    config = folder / CONFIG_FILE
    config.write_text(config.read_text().replace("isolated", "joint"))
    stamps.append(default_stamp())
    changed = shutil.copytree(
        PACKAGE, tmp_path / "package", ignore=shutil.ignore_patterns("weights", "static")
    )
    path = changed / "relational" / "joint_share.py"
    path.write_text(path.read_text().replace("DOUBT = 2.0", "DOUBT = 3.0"))
    before = model_stamp(folder)
    monkeypatch.setattr(
        fingerprints, "constants_hash", lambda rooms: constants_hash(rooms, changed)
    )
    stamps.append(default_stamp())
    assert len(set(stamps)) == 4
    assert model_stamp(folder) != before, "with the same files"


@pytest.mark.parametrize(
    ("kind", "own"), [("relational", "relational"), ("tail", "tail"), ("caml", "baselines")]
)
def test_a_model_is_stamped_by_the_rooms_that_it_computes_in(
    kind: str, own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms = ("nn", "learners", "encoders", "relational", "tail", "baselines")
    model = tmp_path / "model"
    model.mkdir()
    (model / CONFIG_FILE).write_text(f'{{"learner": "{kind}"}}')
    (model / WEIGHTS_FILE).write_bytes(b"")

    def stamp(changed: str) -> str:
        package = tmp_path / f"package {changed}"
        for room in rooms:
            (package / room).mkdir(parents=True)
            text = f"{room.upper()} = {2 if room == changed else 1}  # é"
            (package / room / "module.py").write_text(text, encoding="utf-8")
        monkeypatch.setattr(
            fingerprints, "constants_hash", lambda asked: constants_hash(asked, package)
        )
        return model_stamp(model)

    before = stamp("none")
    assert [room for room in rooms if stamp(room) != before] == ["nn", "learners", own]
