import json
import os
import signal
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from helpers.forks import COMMAND, finish, fork, line_of
from helpers.studios import open_studio, write_pictures
from unitail.cli.main import app
from unitail.cli.studio import _bound
from unitail.errors import CannotWrite, InvalidConfig, InvalidInput
from unitail.studio.exports import Results
from unitail.studio.schema import database_of
from unitail.studio.store import Store

TABLE = "x,y,label\n0,0,a\n1,1,a\n9,9,b\n8,8,b\n1,0,\n8,9,\n"


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["studio", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(TABLE)
    return path


def test_results_are_written_without_the_page(table: Path, tmp_path: Path) -> None:
    out, page, saved = tmp_path / "a.csv", tmp_path / "a.html", tmp_path / "saved"
    said = run("export", table, "--out", out, "--out", page, "--save", saved)
    assert f"All answers are in {out}." in said.replace("\n", "")
    lines = out.read_text().splitlines()
    assert lines[0].startswith("x,y,label,answer,probability,state")
    assert [line.split(",")[3] for line in lines[1:]] == ["a", "a", "b", "b", "a", "b"]
    assert "Answers for t.csv" in page.read_text()
    assert (saved / "README.md").exists()
    assert (tmp_path / ".unitail" / "t.csv.studio.db").exists()


def test_labels_of_what_is_gone_are_reported_on_the_error_stream(
    table: Path, tmp_path: Path
) -> None:
    run("export", table, "--out", tmp_path / "a.csv")
    table.write_text(TABLE.replace("8,8,b\n", ""))
    result = CliRunner().invoke(
        app, ["studio", "export", str(table), "--out", str(tmp_path / "a.csv")]
    )
    assert result.exit_code == 0, result.output
    assert "unitail: 1 label of items that no longer exist.\n" in result.stderr


def test_files_that_vanish_while_they_are_exported_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "pictures"
    names = write_pictures(folder, 5)
    store = Store(database_of(folder, None))
    store.label_by_name({f"{n:04}.png": names[n] for n in range(4)})
    store.close()
    write = Results.write

    def then_one_vanishes(self: Results, *given: Any, **named: Any) -> Path:  # noqa: ANN401
        path = write(self, *given, **named)
        (folder / "0001.png").unlink()
        return path

    monkeypatch.setattr(Results, "write", then_one_vanishes)
    monkeypatch.setattr(
        "unitail.cli.studio._open", lambda _, source, *_args, **_how: open_studio(source)
    )
    targets = ["--out", tmp_path / "a.csv", "--sort-into", tmp_path / "sorted"]
    arguments = ["studio", "export", folder, *targets]
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 1
    assert "4 files sorted into" in result.stdout
    assert "0001.png: has vanished, and was not sorted" in result.stderr


def test_columns_are_chosen_and_changes_are_noted(table: Path, tmp_path: Path) -> None:
    table.write_text("x,y,label\n0,0,a\n0,1,a\n1,9,b\n1,8,b\n0,2,\n1,7,\n")
    run("export", table, "--column", "x=skip", "--save", tmp_path / "saved")
    table.write_text("x,y,z,label\n0,0,1,a\n0,1,1,a\n1,9,1,b\n1,8,1,b\n0,2,1,\n1,7,1,\n")
    said = " ".join(run("export", table, "--out", tmp_path / "a.csv").split())
    assert "table: 6 items." in said
    assert (
        "has columns that are not used, since the 4 labels of its rows were given without" in said
    )
    assert (tmp_path / "a.csv").read_text().startswith("x,y,z,label,answer,")
    with pytest.raises(InvalidConfig, match="with another --column: got --column y=skip"):
        run("export", table, "--column", "y=skip", "--out", tmp_path / "b.csv")


def test_labels_may_lie_elsewhere(table: Path, tmp_path: Path) -> None:
    project = tmp_path / "x" / "labels.db"
    run("export", table, "--out", tmp_path / "a.json", "--project", project)
    assert project.exists()
    assert not (tmp_path / ".unitail").exists()


def test_impossible_options_are_refused_before_any_work(table: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is nothing to write: got neither --out nor"):
        run("export", table)
    with pytest.raises(CannotWrite, match="unsupported file extension"):
        run("export", table, "--out", tmp_path / "a.xyz")
    with pytest.raises(InvalidConfig, match="the token is too easy to guess: got 5 characters"):
        run(table, "--host", "0.0.0.0", "--token", "12345")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InvalidConfig, match=f"cannot be served: got 127.0.0.1 port {port}"):
            run("open", table, "--port", port)
    with pytest.raises(InvalidInput, match="cannot be opened in a studio"):
        run(tmp_path / "none", "--no-browser")


@pytest.mark.slow
def test_a_folder_that_stands_alone_is_opened(table: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    process = fork(COMMAND, "studio", table, "--no-browser", output=output)
    try:
        match = line_of(
            output, process, r"The studio is at (http://127\.0\.0\.1:\d+/)\?token=(\S+)\n"
        )
        own = {"Authorization": f"Bearer {match[2]}"}
        for _ in range(1200):
            try:
                with pytest.raises(urllib.error.HTTPError, match="401") as refused:
                    urllib.request.urlopen(f"{match[1]}api/state")
                refused.value.close()
                request = urllib.request.Request(f"{match[1]}api/state", headers=own)
                with urllib.request.urlopen(request) as reply:
                    state = json.load(reply)
                break
            except urllib.error.URLError:
                time.sleep(0.05)
        else:
            pytest.fail("the studio never answered")
        assert (state["name"], state["modality"], len(state["names"])) == ("t.csv", "table", 6)
        page = (table.parent / ".unitail" / "open.html").read_text()  # stays there if it is killed
        assert match[1] in page
        assert match[2] not in page
        assert process.pid is not None
        request = urllib.request.Request(f"{match[1]}api/events", headers=own)
        with urllib.request.urlopen(request) as events:  # as an open page has them
            assert events.readline() == b"retry: 1000\n"
            os.kill(process.pid, signal.SIGINT)
            assert finish(process) == 0
    finally:
        process.kill()
    said = output.read_text()
    assert "Traceback" not in said
    assert "ERROR" not in said
    assert "All labels are saved." in said
    assert said.startswith("Opening t.csv ...\ntable: 6 items.\n")


def test_a_port_that_is_taken_answers_at_once_and_is_no_other_studios() -> None:
    """A browser is sent there before the server runs, and two studios may start together."""
    with _bound("127.0.0.1", 0) as first, _bound("127.0.0.1", 0) as second:
        assert first.getsockname()[1] != second.getsockname()[1]
        socket.create_connection(first.getsockname(), 5).close()
