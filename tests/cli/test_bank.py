from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from helpers.banks import write_bank
from unitail.banks.bank import FeatureBank
from unitail.cli import main
from unitail.cli.commands import bank
from unitail.errors import InvalidBank


def _run(*arguments: object, columns: int = 80) -> Result:
    environment = {"COLUMNS": str(columns)}
    return CliRunner(env=environment).invoke(bank.app, [str(each) for each in arguments])


def _coded(path: Path, rows: int = 12) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        path,
        q=np.full((rows, 4), 100, np.uint8),
        scale=1.5,
        code="sqrt",
        y=np.arange(rows) % 2,
        classes=["ant", "bee"],
    )
    return path


def test_files_and_folders_are_imported(tmp_path: Path) -> None:
    _coded(tmp_path / "in" / "net" / "one.npz")
    _coded(tmp_path / "in" / "net" / "two.npz")
    single = _coded(tmp_path / "single" / "three.npz")
    out = tmp_path / "out"
    result = _run("import", tmp_path / "in", single, "--out", out, "--licence", "CC0")

    assert result.exit_code == 0, result.output
    assert f"Imported 3 banks to {out}." in result.output.replace("\n", "")
    assert "importing (%) 100/100, " in result.stderr
    opened = [FeatureBank.open(out / name) for name in ("net/one", "net/two", "single/three")]
    assert [each.name for each in opened] == ["one", "two", "three"]
    assert {each.manifest.licence for each in opened} == {"CC0"}


def test_banks_that_are_there_are_skipped(tmp_path: Path) -> None:
    _coded(tmp_path / "net" / "one.npz")
    _run("import", tmp_path / "net", "--out", tmp_path / "out")
    _coded(tmp_path / "net" / "two.npz")
    result = _run("import", tmp_path / "net", "--out", tmp_path / "out")

    assert "Skipped, exists already: net/one." in result.output
    assert "Imported 1 bank to" in result.output


def test_the_encoder_can_be_named(tmp_path: Path) -> None:
    _coded(tmp_path / "net" / "one.npz")
    _run("import", tmp_path / "net", "--out", tmp_path / "out", "--encoder", "better")
    assert FeatureBank.open(tmp_path / "out" / "better" / "one").encoder == "better"


@pytest.mark.parametrize("columns", [80, 100])
def test_info_lists_the_banks(tmp_path: Path, columns: int) -> None:
    write_bank(tmp_path / "a", name="pacs_art_painting", encoder="net[1]", licence="CC BY 4.0")
    write_bank(tmp_path / "b", sizes=(1, 20, 3), dtype="float32")
    result = _run("info", tmp_path, columns=columns)

    assert result.exit_code == 0, result.output
    assert max(len(line) for line in result.output.splitlines()) <= columns
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "net[1]" in lines
    assert any(line.startswith("pacs_art_painting 6 12 3 3/4/5 float16") for line in lines)
    assert any(line.startswith("animals 6 24 3 1/3/20 float32") for line in lines)
    assert "2 banks, 36 rows" in result.output
    assert "1: CC BY 4.0" in result.output


def test_check_passes_whole_banks(tmp_path: Path) -> None:
    write_bank(tmp_path / "a")
    write_bank(tmp_path / "b")
    result = _run("check", tmp_path, tmp_path / "a")

    assert result.exit_code == 0, result.output
    assert "Intact: 2 of 2 banks." in result.output


def test_check_names_every_bad_bank(tmp_path: Path) -> None:
    for name in ("changed", "cut", "fine"):
        write_bank(tmp_path / name)
    features = np.load(tmp_path / "changed" / "features.npy", mmap_mode="r+")
    features[0, 0] += 1
    features.flush()
    (tmp_path / "cut" / "features.npy").write_bytes(b"\x93NUMPY")
    result = _run("check", tmp_path)

    assert result.exit_code == 2
    assert "Intact: 1 of 3 banks." in result.output
    assert f"unitail: {tmp_path / 'changed' / 'features.npy'} changed since" in result.stderr
    assert f"unitail: {tmp_path / 'cut' / 'features.npy'} cannot be read" in result.stderr


def test_info_names_a_bad_bank_and_lists_the_others(tmp_path: Path) -> None:
    write_bank(tmp_path / "fine")
    write_bank(tmp_path / "bad")
    (tmp_path / "bad" / "labels.npy").unlink()
    result = _run("info", tmp_path)

    assert result.exit_code == 2
    assert "1 bank, 12 rows" in result.output
    assert "labels.npy cannot be read: got FileNotFoundError" in result.stderr


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["import", "{}", "--out", "out"], "nothing to import in .*: got a folder without .npz"),
        (["import", "{}/none.npz", "--out", "out"], "nothing to import in .*: got no such file"),
        (["info", "{}"], "no feature bank in .*: got no manifest; .* `unitail bank import`"),
        (["check", "{}/none"], "none is not a folder"),
    ],
)
def test_mistakes_are_reported(tmp_path: Path, command: list[str], message: str) -> None:
    result = _run(*(part.format(tmp_path) for part in command))
    assert isinstance(result.exception, InvalidBank)
    with pytest.raises(InvalidBank, match=message):
        raise result.exception


def test_the_commands_are_part_of_unitail() -> None:
    result = CliRunner().invoke(main.app, ["bank", "--help"])
    assert result.exit_code == 0, result.output
    for command in ("import", "info", "check"):
        assert command in result.output
