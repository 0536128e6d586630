"""The first page is true: its example prints what it shows; files and links exist."""

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
FILE = re.compile(r"(?<![\w./*:-])[\w*][\w./*-]*\.(?:py|toml|css|js|html)(?![\w.*-])")
USERS = re.compile(r"(?:^|/)(?:mine\.\w+|[A-Z]+\.\w+|report\.html)$")
"""Files of users: `mine`, placeholders in capitals, and the reports that commands write."""
NOT_OURS = re.compile(r"\bNo (?:`[^`]+`(?:, | or |))+")
"""Names that the conventions rule out."""


def test_the_six_lines_print_what_stands_below_them() -> None:
    [(code, text)] = examples(ROOT / "README.md")
    assert len([line for line in code.splitlines() if line]) == 6
    assert printed(code) == text


def test_simple_methods_score_what_the_page_states() -> None:
    pixels, y = load_digits(return_X_y=True)
    scaled, known = pixels / 16, np.where(np.arange(len(y)) < 20, y, -1)

    def spread(rows: NDArray[np.float64], kernel: str = "rbf") -> str:
        labels = LabelSpreading(kernel=kernel).fit(rows, known).transduction_
        return percent(float((labels[20:] == y[20:]).mean()))

    peer = LogisticRegression(max_iter=1000).fit(scaled[:20], y[:20])
    assert f"regression also has {percent(peer.score(scaled[20:], y[20:]))} there" in README
    assert f"`LabelSpreading` does. That has {spread(scaled)} with its default kernel" in README
    assert f"but {spread(pixels)} if pixels go from 0 to 16" in README
    assert f"and {spread(scaled, 'knn')} with the kernel `knn`" in README


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


def pages() -> list[str]:
    """List the pages that describe the code as it is now; experiments are history."""
    paths = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    history = {ROOT / "CHANGELOG.md", ROOT / "docs" / "experiments.md"}
    return sorted(path.relative_to(ROOT).as_posix() for path in paths if path not in history)


def named_files(text: str) -> set[str]:
    """Return the files of code that a page names in backquotes, alone or in a command."""
    prose = NOT_OURS.sub("", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    names = {name for span in re.findall(r"`([^`]+)`", prose) for name in FILE.findall(span)}
    return {name for name in names if not USERS.search(name)}


def missing(names: set[str]) -> set[str]:
    """Return the names of no file; the folder may be left out where the page names it, too."""
    places = (ROOT / "src" / "unitail", ROOT)
    absent = {name for name in names if not any(any(place.glob(name)) for place in places)}
    known = {name.rpartition("/")[2] for name in names - absent if "/" in name}
    return absent - known


@pytest.mark.parametrize("page", pages())
def test_every_file_of_the_code_that_is_named_exists(page: str) -> None:
    assert missing(named_files((ROOT / page).read_text())) == set()


def test_names_of_files_are_recognised() -> None:
    named = {page: len(named_files((ROOT / page).read_text())) for page in pages()}
    assert named["ARCHITECTURE.md"] > 50
    assert named["docs/line-by-line.md"] > 50
    assert named["CONTRIBUTING.md"] > 5
    text = (
        "`nn/gone.css`, `python bench/gone.py --all`, `suites/*.toml`\n```sh\npython no.py\n```\n"
    )
    assert named_files(text) == {"nn/gone.css", "bench/gone.py", "suites/*.toml"}
    assert named_files("No `utils.py` or `common.py`. `--encoder mine.py`, `FILE.py`") == set()
    assert missing(named_files(text)) == {"nn/gone.css", "bench/gone.py"}
    assert missing({"nn/attention.py", "attention.py", "tables.py"}) == {"tables.py"}


def _cells(row: str) -> list[str]:
    """Return the cells of a row, without emphasis."""
    return [cell.replace("*", "").replace(" %", "").strip() for cell in row.split(" | ")]
