import signal
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from helpers.forks import COMMAND, finish, fork, line_of
from helpers.services import ASKED, vector_classifier
from unitail.cli.main import app
from unitail.cli.serve import _ended_by_sigterm, listening, read_token
from unitail.client import Client
from unitail.errors import InvalidConfig, InvalidInput, UserError

TOKEN = "a-token-of-24-characters"


def error_of(kind: type[UserError], *arguments: object) -> str:
    result = CliRunner().invoke(app, ["serve", *map(str, arguments)])
    assert isinstance(result.exception, kind), result.output
    return str(result.exception)


@pytest.mark.slow
def test_the_command_serves_until_it_is_stopped(tmp_path: Path) -> None:
    folder = vector_classifier().save(tmp_path / "blobs")
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    command = ["serve", str(folder), "--port", "0", "--token-file", str(token), "--device", "cpu"]
    output = tmp_path / "output"
    server = fork(COMMAND, *command, "--host", "0.0.0.0", output=output)
    try:
        address = line_of(output, server, r"Listening at http://0\.0\.0\.0:(\d+)")
        assert output.read_text().startswith("blobs: 3 classes from")
        with Client(f"http://localhost:{address[1]}", token=TOKEN) as client:
            answers = client.predict("blobs", vectors=ASKED)["answers"]
        assert [each["label"] for each in answers] == vector_classifier().predict(ASKED).tolist()
        server.terminate()
        assert finish(server) in (0, -signal.SIGTERM)
    finally:
        server.kill()
        server.join()


def test_sigterm_ends_a_server_that_is_still_loading() -> None:
    previous = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as caught, _ended_by_sigterm():
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is previous


def test_others_are_not_listened_to_without_a_token(tmp_path: Path) -> None:
    sentence = error_of(InvalidConfig, tmp_path, "--host", "0.0.0.0")
    assert sentence.startswith("a server that others can reach needs a token: got host 0.0.0.0")


def test_a_port_that_is_taken_is_reported_before_anything_is_loaded(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sentence = error_of(InvalidConfig, tmp_path / "nothing", "--port", port)
    assert f"the server cannot listen on 127.0.0.1:{port}: got" in sentence
    assert "Choose another --port; 0 picks a free one." in sentence


def test_answers_do_not_wait_for_packets_to_be_full() -> None:
    with (
        listening("127.0.0.1", 0) as server,
        socket.create_connection(server.getsockname()),
        server.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_missing_path_is_reported(tmp_path: Path) -> None:
    assert "does not exist" in error_of(InvalidInput, tmp_path / "nothing", "--port", 0)


def test_the_token_comes_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_token(None) is None
    monkeypatch.setenv("UNITAIL_TOKEN", TOKEN)
    assert read_token(None) == TOKEN
    with pytest.raises(InvalidInput, match="the token cannot be read from"):
        read_token(tmp_path / "nothing")
