"""What the documentation's pages get beside Markdown."""

import logging
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

import unitail
from unitail.cli.main import app

ROOT = Path(__file__).parents[2]
SITE = runpy.run_path(str(ROOT / "tools" / "docs_site.py"))
CONFIG = {"docs_dir": str(ROOT / "docs"), "repo_url": "https://host/repository"}


def rendered(markdown: str, page: str = "index.md") -> str:
    where = SimpleNamespace(file=SimpleNamespace(src_uri=page))
    result: str = SITE["on_page_markdown"](markdown, page=where, config=CONFIG, files=None)
    return result


def test_links_out_of_the_docs_lead_to_the_repository() -> None:
    assert rendered("[a](../README.md)") == "[a](https://host/repository/blob/main/README.md)"
    assert rendered("[a](../../src/unitail)", "guide/text.md") == (
        "[a](https://host/repository/tree/main/src/unitail)"
    )


def test_links_within_the_docs_stay() -> None:
    text = "[a](training.md) [b](https://x.org/../y) [c](../notation.md#words)"
    assert rendered(text, "guide/text.md") == text


def test_a_link_to_nothing_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        rendered("[a](../nothing.md)")
    assert "index.md links to ../nothing.md, which does not exist" in caplog.text


def test_help_is_what_the_command_prints() -> None:
    text = rendered("before\n\n<!-- help: bank import -->\n\nafter")
    assert text.startswith("before\n\n```text\n")
    assert "Usage: unitail bank import" in text
    assert text.endswith("```\n\nafter")


def test_every_public_name_is_in_the_reference() -> None:
    reference = (ROOT / "docs" / "api.md").read_text().split()
    assert [name for name in unitail.__all__ if f"unitail.{name}" not in reference] == []


def test_every_command_is_in_the_reference() -> None:
    names = set(typer.main.get_command(app).commands)
    reference = (ROOT / "docs" / "commands.md").read_text()
    assert len(names) > 5
    assert {name for name in names if f"<!-- help: {name} -->" not in reference} == set()
