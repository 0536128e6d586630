"""One name for one thing: no two classes of the package are called alike."""

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "unitail"
SAID_TO_CLIENTS = "service/messages.py"
"""Its names are those of the service's description, and speak to others than ours do."""
STUDIO = {"Fitted", "Span", "Vectors"}
"""The studio's own: what a reader of the studio alone has in mind."""


def repeated(texts: Iterable[str]) -> set[str]:
    """Name the classes that several files have; those with an underscore are nobody else's."""
    places = defaultdict(int)
    for text in texts:
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name] += 1
    return {name for name, count in places.items() if count > 1}


def test_no_two_classes_share_a_name() -> None:
    paths = [path for path in SOURCE.rglob("*.py") if path != SOURCE / SAID_TO_CLIENTS]
    assert repeated(path.read_text() for path in paths) - STUDIO == set()


def test_shared_names_are_listed() -> None:
    assert repeated(["class A: ...\nclass _B: ...", "class A: ...\nclass _B: ..."]) == {"A"}
    assert repeated(["class A: ...", "class B: ..."]) == set()
