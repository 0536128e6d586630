"""What changes when the answers of a model might: its weights, its configuration, and constants.

A number at the head of a module, such as how far joint answers are trusted, decides answers as much
as a weight does. So all constants of the rooms that answers pass through are hashed as they are
written, without importing anything: whatever an assignment at the level of a module gives a name in
capitals. Formulas, and numbers inside functions and classes, do not count.
"""

import ast
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from unitail.files import readable_folder, sha256_of
from unitail.learners.checkpoint import CONFIG_FILE, WEIGHTS_FILE
from unitail.learners.pretrained import DEFAULT, shipped_folder

PACKAGE = Path(__file__).parent.parent
MODEL_ROOMS = {"relational": "relational", "tail": "tail"}
"""Where kinds of models compute, if not among the baselines."""
CLASSIFIER_ROOMS = ("nn", "relational", "learners", "encoders", "estimator")
"""Where the default classifier does, beside its files."""


def model_stamp(folder: Path) -> str:
    """Name all that decides what a model in a folder answers, but for formulas."""
    where = readable_folder(folder)
    kind = json.loads((where / CONFIG_FILE).read_text(encoding="utf-8")).get("learner")
    rooms = ("nn", "learners", MODEL_ROOMS.get(kind, "baselines"))
    files = [sha256_of(where / name) for name in (CONFIG_FILE, WEIGHTS_FILE)]
    return " ".join([*files, constants_hash(rooms)])


def default_stamp() -> str:
    """Return a short hash of all that decides what the default classifier answers, likewise."""
    text = f"{model_stamp(shipped_folder(DEFAULT))} {constants_hash(CLASSIFIER_ROOMS)}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def constants_hash(rooms: tuple[str, ...], package: Path = PACKAGE) -> str:
    """Hash the constants of all modules in some rooms; in which of them one is does not count."""
    paths = [path for room in rooms for path in sorted((package / room).rglob("*.py"))]
    lines = sorted(line for path in paths for line in constants(path.read_text(encoding="utf-8")))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def constants(source: str) -> Iterator[str]:
    """Give NAME = VALUE of every constant of a module, without what is said about it."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign):
            names = [ast.unparse(target) for target in node.targets]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            names = [ast.unparse(node.target)]
        else:
            continue
        assert node.value is not None
        yield from (f"{name} = {ast.unparse(node.value)}" for name in names if name.isupper())
