"""The scripts of the paper's experiments run at their smallest size."""

import json
from pathlib import Path

import pytest

from helpers.known_learners import write_blobs
from helpers.scripts import ROOT, run_script
from unitail.learners.checkpoint import save_model
from unitail.learners.registry import build_model, preset

TINY = {"projected_dim": 8, "label_dim": 4, "hidden_dim": 8, "mlp_dim": 8, "layers": 1, "heads": 2}
RECIPE = """
[model]
preset = "tiny"
projected_dim = 8
label_dim = 4
hidden_dim = 8
mlp_dim = 8
layers = 1
heads = 2
[episodes]
ways = [2, 3]
shots = [1, 2]
queries = 2
tokens = 64
[sources.gaussian]
feature_dims = [4]
[training]
steps = 99
learning_rate = 1e-3
[validation]
every = 50
episodes = 8
ways = 3
shots = [1, 5]
queries = 2
"""


def rows_of(page: Path) -> dict[str, list[str]]:
    """Read the last table of a page that has a row of each name."""
    lines = [line for line in page.read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row[1:] for row in cells}


def train(folder: Path, run: Path, monkeypatch: pytest.MonkeyPatch, *extra: object) -> None:
    recipe = folder / "tiny.toml"
    recipe.write_text(RECIPE)
    options = ["--one", "--cpu", "--banks", folder, "--runs", run, *extra]
    run_script("bench/train_recipes.py", recipe, *options, monkeypatch=monkeypatch)


def test_train_recipes_takes_steps_seed_and_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    train(tmp_path, run, monkeypatch, "--steps", 3, "--seed", 7, "--rate", 0.005)
    trained = json.loads((run / "recipe.json").read_text())["recipe"]["training"]
    assert [trained[key] for key in ("steps", "seed", "learning_rate")] == [3, 7, 0.005]
    assert (run / "model" / "config.json").exists()


def test_train_recipes_counts_the_steps_that_a_time_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    train(tmp_path, run, monkeypatch, "--seconds", 0.1)
    steps = json.loads((run / "recipe.json").read_text())["recipe"]["training"]["steps"]
    assert 0 < steps != 99


def test_measure_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_blobs(tmp_path / "banks", "rsscn7", encoder="efflite0", classes=6, rows=8)
    write_blobs(tmp_path / "banks", "not_for_testing", encoder="efflite0")
    for number, name in enumerate(("base_0", "base_1", "other_0", "other_1")):
        folder = tmp_path / "runs" / name
        save_model(build_model(preset("tiny", **TINY), seed=number), folder / "model")
        entry = {
            "step": 5,
            "validation": {
                shots: {"accuracy": 0.1 * number, "loss": 2 - 0.1 * number}
                for shots in ("1-shot", "5-shot")
            },
        }
        (folder / "log.jsonl").write_text(json.dumps({"step": 5}) + "\n" + json.dumps(entry) + "\n")
    out = tmp_path / "out"
    options = ["--banks", tmp_path / "banks", "--runs", tmp_path / "runs", "--out", out]
    options += [
        "--episodes",
        4,
        "--queries",
        2,
        "--device",
        "cpu",
        "--learners",
        "proto_head_paper",
    ]
    run_script("bench/measure_runs.py", *options, monkeypatch=monkeypatch)
    text, measured = (out / "README.md").read_text(), (out / "rows_0.jsonl").read_text()
    rows = [json.loads(line) for line in measured.splitlines()]
    assert {row["bank"] for row in rows} == {"efflite0/rsscn7"}
    assert "| base | 5, 5 | 5.0 ± 63.5 | 5.0 ± 63.5 | 1.95 ± 0.64 | 1.95 ± 0.64 |" in text
    means = {row["learner"]: 100 * row["accuracy"] for row in rows if row["shots"] == 1}
    change = (means["other_0"] - means["base_0"] + means["other_1"] - means["base_1"]) / 2
    assert float(rows_of(out / "README.md")["other"][0].split(" ± ")[0]) == pytest.approx(
        change, abs=0.06
    )
    assert (out / "validation.png").exists()


def test_label_extrapolation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_blobs(tmp_path, "cub200", encoder="efflite0", classes=6, rows=7, width=8)
    out = tmp_path / "out"
    options = ["--banks", tmp_path, "--out", out, "--sets", "efflite0/cub200", "--ways", 2, 6]
    options += ["--learners", "proto_head_paper", "--episodes", 2, "--queries", 1]
    run_script("bench/label_extrapolation.py", *options, "--device", "cpu", monkeypatch=monkeypatch)
    assert len(rows_of(out / "README.md")["proto_head_paper"]) == 2
    assert (out / "extrapolation.png").stat().st_size > 10_000


def test_encoder_swap_sets_the_same_data_sets_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = [ROOT / "results" / "bench_banks", ROOT / "results" / "tail_banks"]
    options = ["--results", *results, "--learners", "proto_head_paper", "caml", "--out", tmp_path]
    run_script("bench/encoder_swap.py", *options, monkeypatch=monkeypatch)
    rows = rows_of(tmp_path / "README.md")
    sets = [name for name in rows if name not in ("set", "change")]
    assert len(sets) == 9
    changes = [
        float(rows[name][1].split(" ± ")[0]) - float(rows[name][0].split(" ± ")[0]) for name in sets
    ]
    assert float(rows["change"][1].split(" ± ")[0]) == pytest.approx(sum(changes) / 9, abs=0.1)
    assert rows["change"][3] == rows["rsscn7"][3] == "cannot"
