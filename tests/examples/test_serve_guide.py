"""The guide to the service: every curl line and the client's example run; so does deploy/."""

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from helpers.services import (
    colour_classifier,
    picture,
    running,
    text_classifier,
    vector_classifier,
)
from unitail.cli.main import app

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guide" / "serve.md").read_text()
ADDRESS = "localhost:8000"
TOKEN = "a-token-of-24-characters"


def curl_lines() -> list[str]:
    return [line for line in GUIDE.splitlines() if line.startswith("curl ")]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_every_curl_line_of_the_guide_is_answered(tmp_path: Path) -> None:
    (tmp_path / "rose.png").write_bytes(picture((230, 0, 0)))
    (tmp_path / "iris.png").write_bytes(picture((0, 0, 230)))
    classifiers = {
        "flowers": colour_classifier(),
        "iris": vector_classifier(),
        "tickets": text_classifier(),
    }
    assert len(curl_lines()) == 10
    with running(classifiers, token=TOKEN) as live:
        for line in curl_lines():
            line = line.replace(ADDRESS, live.url.removeprefix("http://"))
            words = shlex.split(line.replace("$UNITAIL_TOKEN", TOKEN))
            header = ["--header", f"Authorization: Bearer {TOKEN}"]
            done = subprocess.run(
                [*words, "--fail-with-body", "--silent", *header],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, (line, done.stdout, done.stderr)
            assert "error" not in done.stdout


def test_the_example_of_the_client_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [code] = re.findall(r"^```py\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    (tmp_path / "rose.png").write_bytes(picture((230, 0, 0)))
    monkeypatch.chdir(tmp_path)
    with running({"flowers": colour_classifier()}) as live:
        exec(code.replace(f"http://{ADDRESS}", live.url), {})
    assert capsys.readouterr().out == "red\n"


def test_deployments_name_options_and_extras_that_are_there() -> None:
    texts = [path.read_text() for path in sorted((ROOT / "deploy").iterdir())]
    command = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).output
    called = [
        option
        for text in texts
        for line in text.splitlines()
        if "unitail serve" in line or '"unitail", "serve"' in line or "command:" in line
        for option in re.findall(r"--[a-z-]+", line.partition("#")[0])
    ]
    assert {"--host", "--port", "--token-file", "--read-only"} <= set(called)
    assert [option for option in called if option not in command] == []
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    [wanted] = re.findall(r'"\.\[(.*?)\]"', "".join(texts))
    assert set(wanted.split(",")) <= set(extras)


def test_the_container_is_not_root_and_has_nothing_to_spare() -> None:
    docker = (ROOT / "deploy" / "Dockerfile").read_text()
    assert re.findall(r"^USER (\d+)$", docker, re.MULTILINE) == ["10001"]
    assert "HF_HUB_OFFLINE=1" in docker
    for copied in re.findall(r"^COPY (?!--)(.*) \S+$", docker, re.MULTILINE):
        assert all((ROOT / name).exists() for name in copied.split())
    service = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]["unitail"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert (ROOT / "deploy" / service["build"]["context"]).resolve() == ROOT
    assert service["init"] is True  # else a stop is not heard while classifiers are loaded
    [port] = service["ports"]
    assert port.startswith("127.0.0.1:")
    check = re.search(r"^  CMD (\[.*\])$", docker, re.MULTILINE)
    assert check is not None
    assert service["healthcheck"]["test"] == ["CMD", *json.loads(check[1])]


def test_a_classifier_is_mounted_with_its_folder() -> None:
    """It is replaced as a whole, and a mount point cannot be renamed."""
    service = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]["unitail"]
    [volume] = service["volumes"]
    assert Path(service["command"][0]).parent == Path(volume["target"])
    assert volume["bind"]["create_host_path"] is False
    assert "/models" in (ROOT / ".gitignore").read_text().split()
