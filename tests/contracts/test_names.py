"""No two classes of the package have the same name, but for those of messages.

Only classes at the top of a module count: names that begin with an underscore are private to their
module, and type aliases are abbreviations within it.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "unitail"
MESSAGES = "service/messages.py"
"""Its classes are named in the service's OpenAPI description, which clients read, not our code."""


def repeated(texts: Iterable[str]) -> set[str]:
    """Return the names of classes that several modules have."""
    places = defaultdict(int)
    for text in texts:
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name] += 1
    return {name for name, count in places.items() if count > 1}


def test_no_two_classes_share_a_name() -> None:
    paths = [path for path in SOURCE.rglob("*.py") if path != SOURCE / MESSAGES]
    assert repeated(path.read_text() for path in paths) == set()


def test_shared_names_are_listed() -> None:
    assert repeated(["class A: ...\nclass _B: ...", "class A: ...\nclass _B: ..."]) == {"A"}
    assert repeated(["class A: ...", "class B: ..."]) == set()
