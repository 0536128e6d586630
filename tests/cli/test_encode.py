from pathlib import Path

import numpy as np
import pandas
import pytest
import typer
from typer.testing import CliRunner

from helpers.sounds import write_sounds
from unitail.banks.bank import FeatureBank
from unitail.cli.commands.encode import encode
from unitail.engines.choice import EngineChoice
from unitail.errors import InvalidConfig, InvalidInput, UnknownEncoder

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(encode)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNITAIL_CACHE", str(tmp_path / "cache"))


def test_a_folder_becomes_a_bank(tmp_path: Path) -> None:
    folder, out = write_sounds(tmp_path / "sounds"), tmp_path / "banks" / "toy sounds"
    command = [str(folder), "-o", str(out), "--licence", "CC0", "--dtype", "float32"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "audio: 12 examples of 3 classes (beep, hiss, hum)." in result.stdout
    assert f"{out}: 12 rows of 3 classes, vectors of 240 numbers by log-mel." in result.stdout
    manifest = FeatureBank.open(out).manifest
    assert (manifest.name, manifest.licence, manifest.dtype) == ("toy sounds", "CC0", "float32")
    assert CliRunner().invoke(app, command).exit_code == 0  # it is there already


def test_broken_files_are_listed_and_the_exit_code_is_1(tmp_path: Path) -> None:
    folder = write_sounds(tmp_path / "sounds")
    for number in range(12):
        (folder / "hum" / f"broken{number:02}.wav").write_bytes(b"RIFF")
    result = CliRunner().invoke(app, [str(folder), "-o", str(tmp_path / "bank")])
    assert result.exit_code == 1
    assert "12 could not be read and were skipped:\n  hum/broken00.wav: " in result.stderr
    assert "and 2 more; none of them is in the bank." in result.stderr
    assert FeatureBank.open(tmp_path / "bank").num_rows == 12


def test_tables_and_odd_types_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y,label\n1,2,a\n2,3,b\n")
    command = [str(tmp_path / "t.csv"), "-o", str(tmp_path / "bank")]
    with pytest.raises(InvalidInput, match="no column holds file names or texts: got 'x', 'y'"):
        CliRunner().invoke(app, command, catch_exceptions=False)
    with pytest.raises(InvalidConfig, match="int4"):
        CliRunner().invoke(app, [*command, "--dtype", "int4"], catch_exceptions=False)


@pytest.mark.parametrize("suffix", ["csv", "xlsx"])
def test_one_column_of_a_mixed_table_is_encoded_with_workers_and_without(
    suffix: str, tmp_path: Path
) -> None:
    notes = ["how are you today", "where is my parcel now", "see you soon my friend"]
    frame = pandas.DataFrame({"size": [1, 2, 4], "note": notes, "label": ["a", "b", "a"]})
    table = tmp_path / f"t.{suffix}"
    frame.to_csv(table, index=False) if suffix == "csv" else frame.to_excel(table, index=False)
    for name, options in (("alone", []), ("together", ["--workers", "2"])):
        command = [str(table), "-o", str(tmp_path / name), "--device", "cpu", *options]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.exception
    alone, together = (FeatureBank.open(tmp_path / name) for name in ("alone", "together"))
    assert (alone.num_rows, alone.class_names) == (3, ("a", "b"))
    np.testing.assert_allclose(alone.features, together.features, atol=1e-3)


OWN = """
import numpy as np
from unitail import Encoder, Modality

class Sizes(Encoder):
    modality = Modality.AUDIO

    def __init__(self):
        super().__init__(name="sizes", width=1, fingerprint="sizes 1", batch_size=8)

    def read(self, item):
        return item.stat().st_size

    def embed(self, batch):
        return np.array(batch, dtype=np.float32)[:, None]
"""


def test_a_custom_encoder_makes_banks(tmp_path: Path) -> None:
    folder, file = write_sounds(tmp_path / "sounds"), tmp_path / "mine.py"
    file.write_text(OWN)
    command = [str(folder), "-o", str(tmp_path / "bank"), "--encoder", f"{file}:Sizes"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert FeatureBank.open(tmp_path / "bank").encoder == "sizes"
    many = [str(folder), "-o", str(tmp_path / "many"), *command[3:], "--workers", "2"]
    result = CliRunner().invoke(app, many)  # every worker runs the file
    assert result.exit_code == 0, result.output
    assert FeatureBank.open(tmp_path / "many").num_rows == 12
    file.write_text(OWN.replace("AUDIO", "TEXT"))
    with pytest.raises(UnknownEncoder, match=r"not an encoder for audio items: got Sizes for text"):
        CliRunner().invoke(app, command, catch_exceptions=False)


def test_workers_make_the_same_bank(tmp_path: Path) -> None:
    folder = write_sounds(tmp_path / "sounds")
    (folder / "hum" / "broken.wav").write_bytes(b"RIFF")
    options = ["--name", "toy", "--device", "cpu"]
    CliRunner().invoke(app, [str(folder), "-o", str(tmp_path / "one"), *options])
    many = [str(folder), "-o", str(tmp_path / "two"), *options, "--workers", "2"]
    result = CliRunner().invoke(app, [*many, "--chunk-rows", "4"])
    assert result.exit_code == 1, result.output
    assert "audio: 13 rows, in the column 'file'." in result.stdout
    assert "1 could not be read and was skipped:\n  row 13 (" in result.stderr
    files = [path.name for path in (tmp_path / "one").iterdir()]
    assert all(
        (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
        for file in files
    )


@pytest.mark.parametrize("other", ["label", "note"])
def test_an_engine_takes_the_labels_of_the_column_that_is_named(other: str, tmp_path: Path) -> None:
    """Whether or not another one is called `label`; an address is for engines."""
    files = sorted(write_sounds(tmp_path / "sounds", count=2).rglob("*.wav"))
    rows = [f"{file},{file.parent.name},{'xy'[n % 2]}" for n, file in enumerate(files)]
    (tmp_path / "t.csv").write_text("\n".join([f"file,kind,{other}", *rows]))
    command = [f"file://{tmp_path / 't.csv'}", "-o", str(tmp_path / "bank"), "--device", "cpu"]
    result = CliRunner().invoke(app, [*command, "--label-column", "kind"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    bank = FeatureBank.open(tmp_path / "bank")
    assert (bank.num_rows, bank.class_names) == (6, ("beep", "hiss", "hum"))


def test_rows_with_their_vectors_become_parquet_files(tmp_path: Path) -> None:
    """From an address, without labels; pandas reads the folder as it is."""
    folder = write_sounds(tmp_path / "sounds", count=2)
    (folder / "loose.wav").write_bytes(b"RIFF")
    command = [f"file://{folder}", "-o", str(tmp_path / "out"), "--format", "parquet"]
    result = CliRunner().invoke(app, [*command, "--device", "cpu", "--chunk-rows", "3"])
    assert result.exit_code == 1, result.output
    assert "7 rows in 3 files, 6 of them with a vector of 240 numbers by log-mel." in result.stdout
    assert "1 could not be read and was skipped:\n  row 7 (loose.wav): holds no" in result.stderr
    table = pandas.read_parquet(tmp_path / "out")
    assert list(table.columns) == ["file", "vector", "content", "reason"]
    assert table["file"].tolist()[0] == "beep/0.wav"
    assert [len(vector) for vector in table["vector"].dropna()] == [240] * 6


def test_odd_formats_and_engines_are_refused(tmp_path: Path) -> None:
    command = [str(write_sounds(tmp_path / "s", count=1)), "-o", str(tmp_path / "out")]
    for option, value in (("--format", "hdf5"), ("--engine", "spark")):
        with pytest.raises(InvalidConfig, match=f"{option} is unknown: got {value}"):
            CliRunner().invoke(app, [*command, option, value], catch_exceptions=False)
    with pytest.raises(InvalidConfig, match=r"a bank is a folder on a disk: got memory://x"):
        CliRunner().invoke(app, [command[0], "-o", "memory://x"], catch_exceptions=False)


def test_workers_without_a_gpu_use_the_cpu() -> None:
    assert EngineChoice("ray").device("auto") == "cpu"
    assert EngineChoice("ray").device("cuda") == "cuda"  # as was asked
    assert EngineChoice("ray", gpus=0.25).device("auto") == "auto"
    assert EngineChoice("local", workers=2).device("auto") == "auto"
