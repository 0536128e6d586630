import shutil
from pathlib import Path

from typer.testing import CliRunner, Result

from helpers.known_learners import write_blobs
from helpers.sounds import write_sounds
from unitail.banks.bank import FeatureBank
from unitail.cli import main
from unitail.datasets.catalogue import catalogue


def _run(*arguments: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(main.app, ["data", *map(str, arguments)])


def test_the_list_names_every_entry_and_what_is_encoded(tmp_path: Path) -> None:
    for name in ("cub200-test", "meta_album_brd_mini", "mine"):
        write_blobs(tmp_path, name, encoder="net")
    result = _run("list", "--banks", tmp_path)
    assert result.exit_code == 0, result.output
    lines = {line.split()[0]: line for line in result.output.splitlines() if line.split()}
    assert set(catalogue()) <= set(lines)
    assert lines["cub200"].rstrip().endswith("net")
    assert lines["meta_album"].rstrip().endswith("net")
    assert lines["imdb"].rstrip().endswith("-")
    assert "`unitail encode` makes a bank from any folder" in result.output


def test_info_says_where_to_get_it_and_what_is_expected() -> None:
    result = _run("info", "cub200")
    for words in (
        "CUB_200_2011.tgz",
        "non-commercial",
        "    ROOT/classes.txt ",
        "all: 200 classes, 11,788 items. All classes.",
        "test: 50 classes, 2,958 items. The 50 classes whose number, from 1,",
        "unitail data prepare cub200 --root ROOT",
    ):
        assert words in result.output
    assert all(_run("info", name).exit_code == 0 for name in catalogue())


def test_prepare_checks_encodes_and_resumes(tmp_path: Path) -> None:
    write_sounds(tmp_path / "genres", count=2)
    (tmp_path / "genres" / "hum" / "broken.wav").write_bytes(b"no sound")
    options = ("--root", tmp_path, "--out", tmp_path / "banks", "--device", "cpu")
    result = _run("prepare", "gtzan", *options, "--any-version", "--check")
    assert result.output == "gtzan: 7 audios of 3 classes, 2 to 3 per class.\n"
    assert not (tmp_path / "banks").exists()
    refused = _run("prepare", "gtzan", *options)
    assert "another version of gtzan" in str(refused.exception)
    for _ in range(2):  # the second time it is there
        result = _run("prepare", "gtzan", *options, "--any-version")
        assert result.exit_code == 1, result.output
        assert "gtzan: 6 rows of 3 classes" in result.output.replace("\n", "")
        assert "hum/broken.wav" in result.output
    bank = FeatureBank.open(tmp_path / "banks/log-mel/gtzan")
    assert bank.num_rows == 6
    shutil.rmtree(tmp_path / "genres" / "beep")
    changed = _run("prepare", "gtzan", *options, "--any-version")
    assert "does not match" in str(changed.exception)


def test_workers_prepare_the_same_bank(tmp_path: Path) -> None:
    write_sounds(tmp_path / "genres", count=2)
    options = ("--root", tmp_path, "--device", "cpu", "--any-version")
    one = _run("prepare", "gtzan", *options, "--out", tmp_path / "one")
    assert one.exit_code == 0, one.output
    two = _run("prepare", "gtzan", *options, "--out", tmp_path / "two", "--workers", "2")
    assert two.exit_code == 0, two.output
    folders = [tmp_path / name / "log-mel/gtzan" for name in ("one", "two")]
    for path in folders[0].iterdir():
        assert path.read_bytes() == (folders[1] / path.name).read_bytes()
