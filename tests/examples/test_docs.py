"""The documentation's examples run in the order of their page, and print what it says."""

from pathlib import Path

import pytest

from helpers.markdown import examples, printed

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if any(examples(page)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_the_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNITAIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for code, text in examples(page):
        output = printed(code)
        assert output == text or (text is None and output != "")


def test_the_guides_have_examples() -> None:
    names = {page.relative_to(DOCS).as_posix() for page in PAGES}
    guides = {f"guide/{name}.md" for name in ("images", "text", "audio", "tables")}
    assert names >= {"index.md", "reproduce.md", "training.md", *guides}
