"""Fingerprints of all that determines a model's answers: weights, configuration, constants.

A module-level constant, such as how far joint answers are trusted, affects answers as much as a
weight does. So all constants of the packages that compute answers are hashed as source text,
without importing anything: every module-level assignment to a name in capitals. Formulas, and
numbers inside functions and classes, are not included.
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
MODEL_PACKAGES = {"relational": "relational", "tail": "tail"}
"""The package of each kind of model; those not listed are in `baselines`."""
CLASSIFIER_PACKAGES = ("nn", "relational", "learners", "encoders", "estimator")
"""The packages that compute the default classifier's answers."""


def model_stamp(folder: Path) -> str:
    """Return hashes of the files and constants that determine the answers of a model."""
    folder = readable_folder(folder)
    kind = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8")).get("learner")
    packages = ("nn", "learners", MODEL_PACKAGES.get(kind, "baselines"))
    files = [sha256_of(folder / name) for name in (CONFIG_FILE, WEIGHTS_FILE)]
    return " ".join([*files, constants_hash(packages)])


def default_stamp() -> str:
    """Return a short hash of the files and constants behind the default classifier's answers."""
    text = f"{model_stamp(shipped_folder(DEFAULT))} {constants_hash(CLASSIFIER_PACKAGES)}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def constants_hash(packages: tuple[str, ...], package: Path = PACKAGE) -> str:
    """Hash the constants of all modules in some packages, regardless of their location."""
    paths = [path for room in packages for path in sorted((package / room).rglob("*.py"))]
    lines = sorted(line for path in paths for line in constants(path.read_text(encoding="utf-8")))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def constants(source: str) -> Iterator[str]:
    """Yield NAME = VALUE for every constant of a module's source, without comments."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign):
            names = [ast.unparse(target) for target in node.targets]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            names = [ast.unparse(node.target)]
        else:
            continue
        assert node.value is not None
        yield from (f"{name} = {ast.unparse(node.value)}" for name in names if name.isupper())
