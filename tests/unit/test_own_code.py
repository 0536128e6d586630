from pathlib import Path

import pytest

from unitail.errors import UserError
from unitail.own_code import is_own, own_object

FILE = """
from dataclasses import dataclass

@dataclass
class Mine:
    size: int = 3

    def infer(self):
        return self.size

class Sized:
    def __init__(self, size):
        self.size = size

large = Mine(7)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def test_a_class_is_made_and_an_object_is_taken(file: Path) -> None:
    assert own_object(f"{file}:Mine", "infer").infer() == 3
    assert own_object(f"{file}:large", "infer").infer() == 7


def test_a_file_that_changed_is_read_again(file: Path) -> None:
    own_object(f"{file}:Mine")
    file.write_text(FILE.replace("= 3", "= 30"))
    assert own_object(f"{file}:Mine").size == 30


def test_names_of_the_package_are_not_files() -> None:
    assert is_own("here/mine.py:Mine")
    assert not is_own("linear_probe_tuned")
    assert not is_own("c:/models/minilm")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("{}:Nobody", r"mine\.py has no 'Nobody': got .*; allowed: dataclass, Mine, Sized, large"),
        ("{}:Sized", r"Sized cannot be created: got .*'size'; allowed: .* mine = Sized\(\.\.\.\)"),
        (
            "{}:large",
            r"large lacks methods that it needs: got Mine without embed; allowed: an object with",
        ),
        ("{}x.py:Mine", r"x\.py does not exist: got no such file; allowed: FILE\.py:NAME"),
    ],
)
def test_mistakes_are_reported(file: Path, name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        own_object(name.format(file), "embed")


def test_a_file_that_fails_says_how(file: Path) -> None:
    file.write_text("1 / 0")
    with pytest.raises(UserError, match=r"cannot be run: got ZeroDivisionError: division by zero"):
        own_object(f"{file}:Mine")
