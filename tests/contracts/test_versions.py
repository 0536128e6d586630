"""The version is written by hand in three places; all agree."""

import re
from pathlib import Path

import unitail

ROOT = Path(__file__).parents[2]


def test_the_citation_has_the_version_of_the_package() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == [unitail.__version__]


def test_the_newest_dated_entry_of_the_changelog_is_the_version_of_the_citation() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    dated = re.findall(r"^## (\d\S*) \((\d{4}-\d\d-\d\d)\b", changelog, re.MULTILINE)
    assert dated[0][0] == unitail.__version__
    assert [date for _, date in dated] == sorted((date for _, date in dated), reverse=True)
    assert f"\ndate-released: {dated[0][1]}\n" in (ROOT / "CITATION.cff").read_text()
