"""The commands of the first page do what it states."""

import csv
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from helpers.colours import MeanColour
from helpers.letters import Letters
from unitail.cli.main import app
from unitail.encoders.encoder import Encoder, Modality
from unitail.inputs import encode, input_encoder, mixed

README = (Path(__file__).parents[2] / "README.md").read_text()
SHADES = {"red": (200, 0, 0), "blue": (0, 0, 200)}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the folders and the table that the page mentions."""

    def make(name: str, modality: Modality, **_: object) -> Encoder[Any]:
        return {Modality.IMAGE: MeanColour, Modality.TEXT: Letters}[modality]()

    for module in (encode, input_encoder, mixed):
        monkeypatch.setattr(module, "make_encoder", make)
    monkeypatch.chdir(tmp_path)
    rows = []
    for label, colour in SHADES.items():
        for folder, each in (*((f"labelled/{label}", n) for n in range(4)), ("unsorted", label)):
            shade = tuple(part + (each if isinstance(each, int) else 9) for part in colour)
            Path(folder).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), shade).save(f"{folder}/{each}.png")
            said = label if isinstance(each, int) else ""
            rows.append(f"{folder}/{each}.png,it is as {label} as can be,{shade[0]}.5,{said}")
    Path("table.csv").write_text("\n".join(["picture,note,size,kind", *rows]))


@pytest.mark.usefixtures("files")
def test_the_commands_do_what_the_page_states() -> None:
    section = README.split("## Files in, answers out")[1].split("\n## ")[0]
    commands = [
        line.split("#")[0].split("|")[0] for line in re.findall(r"^unitail .*$", section, re.M)
    ]
    assert len(commands) == 7
    for command in commands:
        if "--also answers.csv" in command:
            answers = Path("answers.csv").read_text()
            Path("answers.csv").write_text(answers.replace("red.png,,", "red.png,scarlet,"))
        result = CliRunner().invoke(app, shlex.split(command)[1:])
        assert result.exit_code == 0, f"{command}: {result.output}"
    assert sorted(path.name for path in Path("sorted").rglob("*.png")) == ["blue.png", "red.png"]
    table = list(csv.DictReader(Path("answered.csv").read_text().splitlines()))
    assert [row["answer"] for row in table] == [*5 * ["red"], *5 * ["blue"]]
    better = {
        row["file"]: row for row in csv.DictReader(Path("better.csv").read_text().splitlines())
    }
    assert better["unsorted/red.png"]["answer"] == "scarlet"
    assert better["unsorted/red.png"]["state"] == "given"
    assert "Nearest examples" in Path("report.html").read_text()
