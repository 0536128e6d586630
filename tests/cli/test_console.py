import io

import pytest
import typer
from rich.console import Console

from unitail.cli import console
from unitail.cli.console import bar, bars, print_lines, report_unreadable


def test_names_are_never_read_as_markup() -> None:
    stream = io.StringIO()
    print_lines(Console(file=stream, width=60), "[red]file[/red].jpg", "12 items")
    assert stream.getvalue() == "[red]file[/red].jpg\n12 items\n"


def test_nothing_unreadable_is_not_mentioned(capsys: pytest.CaptureFixture[str]) -> None:
    report_unreadable([], all_in="see the table")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("count", "first", "last"),
    [
        (1, "unitail: 1 could not be read and was skipped:", "  file 0"),
        (10, "unitail: 10 could not be read and were skipped:", "  file 9"),
        (
            1234,
            "unitail: 1,234 could not be read and were skipped:",
            "  and 1,224 more; all there.",
        ),
    ],
)
def test_unreadable_files_are_counted_some_are_named_and_the_exit_code_is_1(
    count: int, first: str, last: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as caught:
        report_unreadable([f"file {number}" for number in range(count)], all_in="all there")
    assert caught.value.exit_code == 1
    lines = capsys.readouterr().err.splitlines()
    assert (lines[0], lines[-1]) == (first, last)
    assert len(lines) <= 12


def test_a_bar_shows_how_far_work_is_on_the_error_stream(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with bar("reading") as on_progress:
        on_progress(3, 7)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "reading" in shown.err
    assert "3/7" in shown.err


def test_a_quiet_bar_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with bar("reading", quiet=True) as on_progress:
        on_progress(3, 7)
    assert capsys.readouterr() == ("", "")


def test_long_work_says_something_in_a_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 5.0, 20.0, 20.0, 20.0, 25.0, 31.0])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(clock))
    with bar("encoding") as on_progress:
        on_progress(1, 40)
        on_progress(9, 40)
        on_progress(40, 40)
    assert capsys.readouterr().err.splitlines() == ["encoding 9/40, 20 s", "encoding 40/40, 31 s"]


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    terminal = Console(file=stream, force_terminal=True, width=60)
    monkeypatch.setattr(console, "Console", lambda **_: terminal)
    with bar("reading") as on_progress:
        on_progress(3, 7)
    assert "3/7" in stream.getvalue()
    assert "━" in stream.getvalue()


def test_what_comes_after_has_a_bar_of_its_own_once_it_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.StringIO()
    terminal = Console(file=stream, force_terminal=True, width=60)
    monkeypatch.setattr(console, "Console", lambda **_: terminal)
    with bars("encoding", "answering") as (on_progress, on_answered):
        on_progress(7, 7)
        assert "answering" not in stream.getvalue()
        on_answered(5, 9)
    assert "5/9" in stream.getvalue()


@pytest.mark.parametrize(("seconds", "said"), [(1.0, False), (20.0, True)])
def test_a_log_hears_of_what_comes_after_only_if_it_takes_long(
    seconds: float, said: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    with bars("encoding", "answering") as (on_progress, on_answered):
        on_progress(9, 9)
        now[0] = 100.0
        on_answered(1, 9)
        now[0] += seconds
        on_answered(5, 9)
        on_answered(9, 9)
    lines = [line.partition(",")[0] for line in capsys.readouterr().err.splitlines()]
    assert lines == [*["answering 5/9"] * said, "encoding 9/9", *["answering 9/9"] * said]
