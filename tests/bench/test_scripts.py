"""Every script of bench/ runs at its smallest size, and writes what it measured."""

import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from helpers.forks import ForkedPopen, run_forked
from helpers.known_learners import write_blobs
from helpers.markdown import accuracy, lines
from helpers.scripts import ROOT, run_script
from helpers.sounds import write_sounds
from unitail.learners.checkpoint import save_model
from unitail.learners.registry import preset
from unitail.tail.model import Tail

CHOOSERS = ["random", "most doubtful", "spread out", "studio"]
STAMP = "unitail.learners.fingerprints.default_stamp"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return tmp_path / "page.md"


def test_every_script_is_tested() -> None:
    names = {path.stem for path in (ROOT / "bench").glob("*.py")}
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert {name for name in names if f"bench/{name}.py" not in text} == set()


def test_results_that_scripts_name_exist() -> None:
    texts = [path.read_text() for path in (ROOT / "bench").rglob("*.py")]
    names = {name for text in texts for name in re.findall(r"--out (results/[\w./]+)", text)}
    assert len(names) > 20
    assert {name for name in names if not (ROOT / name).exists()} == set()


@pytest.mark.slow
def test_latency(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", run_forked)
    monkeypatch.setattr(subprocess, "Popen", ForkedPopen)
    options = ["--shapes", "2x2", "3x2", "--repeats", 2, "--imports", 1, "--out", page]
    options += ["--threads", 1, "--beside", f"SAME={ROOT}"]
    run_script("bench/latency.py", *options, monkeypatch=monkeypatch)
    header, one, other = lines(page)
    assert header[:5] == ["task", "unitail", "LogisticRegression", "NearestCentroid", "SAME"]
    assert header[5:] == ["unitail / LogisticRegression", "unitail / SAME"]
    mean, low, high = (float(each.strip("[],")) for each in one[6].split())
    assert low < mean < high
    assert (one[0], other[0]) == ("2-way 2-shot", "3-way 2-shot")
    assert "(1.00)" in one[2]
    assert "Written by\n\n    python bench/latency.py --shapes 2x2 3x2" in page.read_text()
    assert "Import: torch " in page.read_text()


@pytest.mark.slow
def test_serve_load(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["--rounds", 1, "--seconds", 0.2, "--memory-seconds", 1, "--kinds", "vectors"]
    options += ["--connections", 1, 8, "--max-requests", 8]  # which one server does for all
    run_script("bench/serve_load.py", *options, "--out", page, monkeypatch=monkeypatch)
    header, bare, *served = lines(page)
    assert header[:3] == ["asked", "how", "answers / s"]
    assert bare[3] == "1.00"
    assert [each[-1] for each in served] == ["0"] * 2
    text = page.read_text()
    assert "away with 503" in text  # how many in so short a time is up to the machine
    assert "all other statuses: 0." in text


def test_mixed_tables(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"cats": "a cat sleeps in the sun", "news": "stocks fell again this week"}
    lines_of = [f"{text} {n},{n % 3},{label}" for label, text in words.items() for n in range(6)]
    (tmp_path / "t.csv").write_text("\n".join(["text,size,label", *lines_of]))
    options = [tmp_path / "t.csv", "--ways", 2, "--shots", 2, "--episodes", 2, "--out", page]
    run_script("bench/mixed_tables.py", *options, monkeypatch=monkeypatch)
    rows = {row[0]: row[1] for row in lines(page)[1:]}
    assert accuracy(rows["text alone"]) == 100
    assert accuracy(rows["all"]) > accuracy(rows["all, text shuffled"])
    assert "python bench/mixed_tables.py TABLE --ways 2" in page.read_text()


def test_mixed_parts(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        *("minilm/wordnet_nouns", "glove50/wordnet_nouns", "minilm/debian_sections"),
        *("glove50/debian_sections", "whisper_tiny/espeak_words", "yamnet/espeak_words"),
        *("whisper_tiny/gm_instruments", "yamnet/gm_instruments", "efflite0/pokemon"),
        *("efflite0/grocery", "efflite0/hiragana"),
    ):
        encoder, data = name.split("/")
        write_blobs(tmp_path, data, encoder=encoder, rows=13)
    options = ["--banks", tmp_path, "--shots", 3, "--episodes", 2, "--out", page]
    run_script("bench/mixed_parts.py", *options, monkeypatch=monkeypatch)
    means = {row[1]: float(row[2]) for row in lines(page) if row[0] == "3"}
    assert list(means)[2:] == ["sum", "sum / √P", "mean"]
    assert means["sum"] == means["mean"] > 50


def test_forward_cost(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = [
        "--preset",
        "tiny",
        "--support",
        10,
        "--query",
        50,
        99,
        "--repeats",
        1,
        "--out",
        page,
    ]
    run_script("bench/forward_cost.py", *options, monkeypatch=monkeypatch)
    _, *rows = lines(page)
    sizes = [(name, count) for name in ("isolated", "joint") for count in ("50", "99")]
    assert [(row[0], row[2]) for row in rows] == sizes
    assert all(float(row[3]) > 0 and float(row[4]) > 0 for row in rows)
    assert rows[2][6] == "-"


@pytest.mark.slow
def test_cost_vs_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["--device", "cpu", "--ways", 2, "--repeats", 1, "--small", "--out", tmp_path]
    run_script("bench/cost_vs_ways.py", *options, monkeypatch=monkeypatch)
    names = [row[0] for row in lines(tmp_path / "README.md") if row[0] != "learner"]
    assert {"tail_isolated", "tail_joint", "snail", "gpicl", "caml", "linear_probe_tuned"} <= set(
        names
    )
    assert {"tail_uncached", "snail"} <= set(names)
    assert "## Slower than TAIL from this many classes on" in (tmp_path / "README.md").read_text()
    assert (tmp_path / "cost.png").stat().st_size > 10_000
    assert len((tmp_path / "rows.json").read_text().splitlines()) > 10


def test_coverage(tmp_path: Path, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_blobs(tmp_path, "rsscn7", encoder="efflite0", classes=7, rows=22)
    options = ["--banks", tmp_path, "--episodes", 2, "--out", page]
    run_script("bench/coverage.py", *options, monkeypatch=monkeypatch)
    text = page.read_text()
    assert "## Sets" in text
    assert "## Novelty" in text
    assert [row[0] for row in lines(page)].count("efflite0/rsscn7") == 2
    with pytest.raises(SystemExit):
        run_script("bench/coverage.py", *options, "--only", "x/*", monkeypatch=monkeypatch)


@pytest.mark.slow
def test_large_supports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, out = "efflite0/cub200", tmp_path / "out"
    write_blobs(tmp_path, "cub200", encoder="efflite0", classes=50, rows=8, noise=0.3)
    options = ["--banks", tmp_path, "--sets", name, "--splits", 2, "--out", out]
    options += ["--sizes", "60x3+20"]
    monkeypatch.setattr(subprocess, "run", run_forked)
    run_script("bench/large_supports.py", *options, monkeypatch=monkeypatch)
    rows = {row[0]: row for row in lines(out / "README.md")}
    assert rows["accuracy, %"][1] == f"{name}, 50 classes, 200 rows, 2 splits"
    whole = accuracy(rows["unitail, without pairs"][1])
    assert whole > accuracy(rows["random 1/4"][1])
    assert accuracy(rows["unitail, without pairs, minus pairs"][1]) == 0
    assert rows["60"][1:3] == ["3", "20"]
    assert "BANKS --sets" in (out / "README.md").read_text()
    known = (out / "rows_large.jsonl").read_text()
    run_script("bench/large_supports.py", *options, monkeypatch=monkeypatch)
    assert (out / "rows_large.jsonl").read_text() == known
    monkeypatch.setattr(STAMP, lambda: "another model")
    run_script("bench/large_supports.py", *options, monkeypatch=monkeypatch)
    again = (out / "rows_large.jsonl").read_text().splitlines()
    assert len(again) == 2 * len(known.splitlines()), "rows of another model do not count"


def test_probe_strength(tmp_path: Path, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_blobs(tmp_path, "tiny_imagenet", encoder="efflite0", classes=8, rows=15)
    options = ["--banks", tmp_path, "--only", "efflite0/tiny_imagenet", "--episodes", 2]
    options += ["--timed", "5x2", "--out", page]
    run_script("bench/probe_strength.py", *options, monkeypatch=monkeypatch)
    rows = {row[0]: row for row in lines(page)}
    assert {"0.1", "10", "100000", "prototypes, centred", "efflite0/tiny_imagenet"} <= set(rows)
    assert rows["2 episodes, 5-way 5-shot"][1].endswith(" s")


def test_raw_files(tmp_path: Path, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNITAIL_CACHE", str(tmp_path / "cache"))
    write_sounds(tmp_path / "sounds", count=3)
    options = [tmp_path, "--sets", "sounds", "--shots", 1, "--splits", 3, "--out", page]
    run_script("bench/raw_files.py", *options, monkeypatch=monkeypatch)
    header, row = lines(page)
    assert header[3:] == ["unitail", "unitail, joint", "logistic regression", "prototypes"]
    assert row[0].startswith("sounds (")
    assert row[1:3] == ["3", "33"]
    assert all(accuracy(cell) > 50 for cell in row[3:])


@pytest.mark.slow
def test_train_speed(tmp_path: Path, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_blobs(tmp_path, "set", encoder="toy", classes=30, rows=16)
    options = ["--banks", tmp_path, "--bank", "toy/set", "--preset", "tiny", "--device", "cpu"]
    options += ["--tokens", 600, "--kinds", "eager", "--warmup", 1, "--repeats", 1, "--out", page]
    run_script("bench/train_speed.py", *options, monkeypatch=monkeypatch)
    _, *rows = lines(page)
    assert [row[:3] for row in rows] == [["isolated", "no", "600"], ["joint", "no", "600"]]
    assert all(float(row[3]) > 0 for row in rows)


def test_wide_features(tmp_path: Path, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_blobs(tmp_path, "set", encoder="toy", classes=30, rows=15, width=70)
    save_model(Tail(preset("tiny", layers=1)), tmp_path / "run" / "model")
    options = ["--run", tmp_path / "run", "--banks", tmp_path, "--bank", "toy/set"]
    options += ["--device", "cpu", "--episodes", 2, "--out", page]
    run_script("bench/wide_features.py", *options, monkeypatch=monkeypatch)
    rows = {row[0]: row for row in lines(page)}
    assert {"orthonormal, 16 draws", "prototypes"} <= set(rows)
    assert accuracy(rows["prototypes, centred"][2]) > 50


def test_what_to_expect(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = ("default_banks", "shrunk_centre", "tail_banks")
    rows = [ROOT / "results" / name / "rows.parquet" for name in stored]
    run_script("bench/what_to_expect.py", "--rows", *rows, "--out", page, monkeypatch=monkeypatch)
    assert lines(page) == lines(ROOT / "results" / "what_to_expect.md") != []


def test_label_noise(tmp_path: Path, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_blobs(tmp_path / "banks", "blobs", encoder="toy", classes=4)
    options = ["--banks", tmp_path / "banks", "--shots", 5, "--draws", 2, "--out", page]
    run_script("bench/label_noise.py", *options, monkeypatch=monkeypatch)
    header, *_, own, everything = lines(page)
    assert header[1:3] == ["5%: right", "5%: found"]
    assert own[0] == "toy/blobs"
    assert own[1:] == everything[1:]
    assert "python bench/label_noise.py --banks BANKS" in page.read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be forked here")
def test_studio_kills(page: Path) -> None:
    done = run_forked(
        [sys.executable, ROOT / "bench/studio_kills.py", "--kills", "5", "--out", page]
    )
    assert done.returncode == 0, done.stdout
    [header, row] = lines(page)
    outcomes = dict(zip(header, map(int, row), strict=True))
    assert outcomes["kills"] == 5
    assert outcomes["actions done"] > 0
    assert outcomes["lost"] == outcomes["half done"] == 0


def test_label_next(tmp_path: Path, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_blobs(tmp_path / "banks", "blobs", encoder="toy", classes=4, rows=24)
    options = ["--banks", tmp_path / "banks", "--draws", 2, "--batch", 4, "--labels", 12]
    options += ["--target", 8, "--per-class", 24, "--rows", tmp_path / "rows", "--out", page]
    run_script("bench/label_next.py", *options, monkeypatch=monkeypatch)
    header, own, everything = lines(page)
    assert header == ["data set", "accuracy, %", *CHOOSERS, "saved"]
    assert own[0] == "toy/blobs"
    assert 0 < accuracy(everything[2]) <= 12
    saved = accuracy(everything[2]) - accuracy(everything[5])
    assert accuracy(everything[6]) == pytest.approx(saved, abs=0.11)
    [file] = (tmp_path / "rows").iterdir()
    known = file.read_text()
    run_script("bench/label_next.py", *options, monkeypatch=monkeypatch)
    assert file.read_text() == known, "nothing is new"
    monkeypatch.setattr(STAMP, lambda: "another model")
    run_script("bench/label_next.py", *options, monkeypatch=monkeypatch)
    assert len(file.read_text().splitlines()) == 4, "draws of another model do not count"


def test_scale(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parts at a small size, in this process: what a process of its own adds is its start."""
    monkeypatch.setattr("multiprocessing.context.SpawnContext.Process", threading.Thread)
    options = ["--rows", 12_000, "--width", 8, "--encode", 1500, "--out", page]
    run_script("bench/scale.py", *options, monkeypatch=monkeypatch)
    first, bank, second, texts = lines(page)
    assert (first[0], bank[0]) == ("rows x width", "12,000 x 8")
    assert (second[0], texts[0]) == ("rows", "1,500")
    assert float(texts[3].replace(",", "")) >= float(texts[1].replace(",", "")) > 50


def test_pool(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["--shots", 1, "--draws", 2, "--out", page]
    run_script("bench/pool_digits.py", *options, monkeypatch=monkeypatch)
    _, *rows = lines(page)
    assert [row[1] for row in rows] == ["isolated", "pool of 100", "pool of 800", "joint"]
    assert rows[0][3].startswith("0.0 ")
    assert all(accuracy(row[2]) > 30 for row in rows)


@pytest.mark.slow
def test_studio_estimate(tmp_path: Path, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_blobs(tmp_path / "banks", "blobs", encoder="toy", classes=3, rows=60, noise=1.0)
    monkeypatch.setattr("unitail.studio.estimate.SPLITS", 2)
    options = ["--banks", tmp_path / "banks", "--only", "toy/blobs", "--ways", 3, "--draws", 2]
    run_script("bench/studio_estimate.py", *options, "--out", page, monkeypatch=monkeypatch)
    header, *rows = lines(page)
    assert header[:6] == ["stage", "draws", "right", "off", "size", "holds"]
    assert rows[0][:2] == ["five of each class", "2"]
    assert 0 < float(rows[0][2].split()[0]) <= 100
    assert all(float(row[4]) < 60 for row in rows)


def test_studio_latency(tmp_path: Path, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_blobs(tmp_path / "banks", "blobs", encoder="toy", classes=4, rows=30)
    options = ["--banks", tmp_path / "banks", "--bank", "toy/blobs", "--items", 100, "--ways", 4]
    options += ["--labels", 8, "--table-labels", 12, "--columns", 3, "--repeats", 2, "--out", page]
    run_script("bench/studio_latency.py", *options, monkeypatch=monkeypatch)
    header, *rows = lines(page)
    cpu = ["screen, CPU", "all, CPU", "novelty, CPU", "pool, CPU", "joint, CPU"]
    assert header == ["labels", "then", "screen", "all", *cpu]
    what = ["one changed", "one more", "table, one changed", "table, one more"]
    assert [row[1] for row in rows] == what
    for row in rows:
        screen, everything = (float(cell.split(" (")[0]) for cell in row[2:4])
        assert 0 < screen <= everything
