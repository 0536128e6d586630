"""The list of licences, and an audit that never fails for want of a network."""

import socket
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.scripts import ROOT, run_script


def _load() -> dict[str, Any]:
    import runpy

    return runpy.run_path(str(ROOT / "tools" / "audit.py"))


def _package(**facts: str) -> SimpleNamespace:
    message = Message()
    for name, value in facts.items():
        message[name.replace("_", "-")] = value
    return SimpleNamespace(metadata=message)


@pytest.mark.parametrize(
    ("facts", "licence"),
    [
        ({"License_Expression": "MIT", "License": "x"}, "MIT"),
        ({"Classifier": "License :: OSI Approved :: BSD License"}, "BSD License"),
        ({"License": "Apache 2.0\nlong text"}, "Apache 2.0"),
        ({}, "not said"),
    ],
)
def test_a_licence_is_found_where_packages_state_it(facts: dict[str, str], licence: str) -> None:
    assert _load()["licence_of"](_package(**facts)) == licence


@pytest.mark.parametrize(
    ("licence", "refused"),
    [("GPL-3.0-only", True), ("AGPL-3.0", True), ("LGPL-2.1-or-later", False), ("MIT", False),
     ("GNU General Public License v3 (GPLv3)", True)],
)  # fmt: skip
def test_licences_that_cannot_be_shipped_beside_are_known(licence: str, refused: bool) -> None:
    assert bool(_load()["REFUSED"].search(licence)) is refused


def test_it_lists_and_does_not_fail_without_network(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreachable(*args: object) -> None:
        raise OSError("no network here")

    monkeypatch.setattr(socket, "create_connection", unreachable)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    with pytest.raises(SystemExit) as end:
        run_script("tools/audit.py", monkeypatch=monkeypatch)
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert "torch" in said
    assert "Not audited: the index cannot be reached (no network here)." in said


def test_packages_that_the_index_does_not_know_do_not_count_as_sound(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell: Callable[[list[dict[str, Any]]], int] = _load()["tell_holes"]
    unknown = {"name": "c", "skip_reason": "Dependency not found on PyPI"}
    own = {"name": "unitail", "skip_reason": "distribution marked as editable"}
    assert tell([unknown, own]) == 0
    said = "Not audited, as the index does not know them: 1 packages.\n"
    assert capsys.readouterr().out == said
    hole = {"id": "PYSEC-1", "fix_versions": ["2"]}
    sound, bad = ({"name": n, "version": "1", "vulns": v} for n, v in (("a", []), ("b", [hole])))
    assert tell([sound]) == 0
    assert tell([sound, bad, unknown]) == 1
    report = "b 1: PYSEC-1, fixed in 2\nAudited 2 packages: 1 with known holes.\n"
    assert capsys.readouterr().out.endswith(report + said)


def test_every_check_audits() -> None:
    makefile = (Path(ROOT) / "Makefile").read_text()
    assert "check: lint types layers audit docs" in makefile
