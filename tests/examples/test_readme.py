"""The first page tells the truth: its example runs, and prints what it says."""

import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading

from helpers.markdown import examples, printed

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
LINK = re.compile(r"\]\(([^)#\s]+)")
NAMES = (
    "logistic regression, shrunk mean",
    "unitail, each row by itself",
    "unitail, joint",
    "TAIL (small), joint",
)
"""The rows of the table."""


def test_the_six_lines_print_what_stands_below_them() -> None:
    [(code, text)] = examples(ROOT / "README.md")
    assert len([line for line in code.splitlines() if line]) == 6
    assert printed(code) == text


def test_simple_methods_have_what_is_said_of_them() -> None:
    pixels, y = load_digits(return_X_y=True)
    scaled, known = pixels / 16, np.where(np.arange(len(y)) < 20, y, -1)

    def spread(rows: NDArray[np.float64], kernel: str = "rbf") -> str:
        labels = LabelSpreading(kernel=kernel).fit(rows, known).transduction_
        return percent(float((labels[20:] == y[20:]).mean()))

    peer = LogisticRegression(max_iter=1000).fit(scaled[:20], y[:20])
    assert f"regression also has {percent(peer.score(scaled[20:], y[20:]))} there" in README
    assert f"`LabelSpreading`: {spread(scaled)} as it comes, " in README
    assert f"{spread(scaled, 'knn')} with its other kernel, " in README
    assert f"{spread(pixels)} on pixels from 0 to 16" in README


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def test_the_table_is_that_of_the_results() -> None:
    measured = (ROOT / "results" / "what_to_expect.md").read_text()
    one, five = (re.findall(r"^\| (.+?) \|$", part, re.M) for part in measured.split("\n## ")[1:])
    cells = {
        label: [f"{a} / {b}" for a, b in zip(first[:4], second[:4], strict=True)]
        for (label, *first), (_, *second) in zip(map(_cells, one), map(_cells, five), strict=True)
    }
    shown = [_cells(row) for row in re.findall(r"^\| (.+?) \|$", README, re.M)]
    rows = {label: row for label, *row in shown if label in NAMES}
    assert set(rows) == set(NAMES)
    assert rows == {name: cells[name] for name in NAMES}


def test_every_link_leads_to_a_file() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    links = {
        (page, link) for page in pages for link in re.findall(r"\]\(([^)#\s]+)", page.read_text())
    }
    files = {(page, link) for page, link in links if not link.startswith("http")}
    assert len(files) > 50
    assert [link for page, link in files if not (page.parent / link).exists()] == []


@pytest.mark.parametrize(
    "page", ["ARCHITECTURE.md", "SECURITY.md", "docs/notation.md", "docs/line-by-line.md"]
)
def test_every_file_of_the_code_that_is_named_exists(page: str) -> None:
    names = set(re.findall(r"`([a-z_/]+\.py)`", (ROOT / page).read_text()))
    assert len(names) > 5
    places = (ROOT / "src" / "unitail", ROOT)
    missing = {name for name in names if not any((place / name).exists() for place in places)}
    assert missing == set()


def _cells(row: str) -> list[str]:
    """Return the cells of a row, without emphasis."""
    return [cell.replace("*", "").replace(" %", "").strip() for cell in row.split(" | ")]
