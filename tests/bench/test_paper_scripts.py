"""The scripts of the paper's experiments run at their smallest size."""

import json
import runpy
import subprocess
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from helpers.forks import RUN_SCRIPT, finish, fork
from helpers.known_learners import write_blobs
from helpers.scripts import ROOT, run_script
from unitail.banks.importer import import_bank
from unitail.framework.curves import LearningCurve
from unitail.learners.checkpoint import save_model
from unitail.learners.registry import build_model, preset
from unitail.validity_study.declared import declared_tasks, read_declaration
from unitail.validity_study.kept import KeptCurves, task_stamp

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
    measured = (out / "rows_0.jsonl").read_text()
    # A stop in the middle of a line: that one is measured again, and no other.
    (out / "rows_0.jsonl").write_text(measured[:-20])
    run_script("bench/measure_runs.py", *options, monkeypatch=monkeypatch)
    text, again = (out / "README.md").read_text(), (out / "rows_0.jsonl").read_text()
    assert again == measured
    rows = [json.loads(line) for line in measured.splitlines()]
    assert {row["bank"] for row in rows} == {"efflite0/rsscn7"}
    assert "| base | 5, 5 | 5.0 ± 63.5 | 5.0 ± 63.5 | 1.95 ± 0.64 | 1.95 ± 0.64 |  |  |" in text
    assert "| other | 5, 5 | 25.0 ± 63.5 |" in text  # 20 and 30 %, where base has 0 and 10
    assert "| 20.0 ± 0.0 | 20.0 ± 0.0 |" in text
    means = {row["learner"]: 100 * row["accuracy"] for row in rows if row["shots"] == 1}
    change = (means["other_0"] - means["base_0"] + means["other_1"] - means["base_1"]) / 2
    cell = rows_of(out / "README.md")["other"][0]
    assert float(cell.split(" ± ")[0]) == pytest.approx(change, abs=0.06)
    assert cell.endswith(" / -")  # one data set has no interval over data sets
    assert (out / "validation.png").exists()


def write_coded(folder: Path, name: str, classes: int, rows: int) -> None:
    """Write a coded bank whose codes say class and row."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    labels = np.tile(np.arange(classes), rows)
    codes = np.stack([labels, np.repeat(np.arange(rows), classes)], axis=1).astype(np.uint8)
    names = [f"class {number}" for number in range(classes)]
    np.savez(folder / f"{name}.npz", q=codes, scale=1.0, code="sqrt", y=labels, classes=names)


def test_sample_banks_keeps_rows_of_every_class_and_their_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coded, out, recipes = tmp_path / "coded", tmp_path / "out", tmp_path / "recipes"
    for name, classes, rows in (
        ("a/cub200", 7, 9),
        ("b/cub200", 7, 9),
        ("a/trained", 6, 9),
        ("a/neither", 2, 9),
    ):
        write_coded(coded, name, classes, rows)
    recipes.mkdir()
    banks = '[sources.banks]\nbanks = ["a/{}"]\nheld_out_from = ["{}"]\n'
    text = RECIPE.replace(
        "[sources.gaussian]\nfeature_dims = [4]\n", banks.format(*["trained"] * 2)
    )
    (recipes / "one.toml").write_text(text)
    options = [coded, out, "--testing", "--classes", 5, "--rows", 8, "--set-rows", 20]
    options += ["--fewest", 3, "--recipes", recipes]
    run_script("bench/sample_banks.py", *options, monkeypatch=monkeypatch)
    assert sorted(path.stem for path in out.rglob("*.npz")) == ["cub200", "cub200", "trained"]
    kept = {name: np.load(out / f"{name}.npz") for name in ("a/cub200", "b/cub200", "a/trained")}
    assert [np.bincount(kept[name]["y"]).tolist() for name in kept] == [[4] * 5, [4] * 5, [3] * 6]
    for bank in kept.values():  # the class in the code is the one that the label names
        old = [int(name.split()[1]) for name in bank["classes"][bank["y"]]]
        assert bank["q"][:, 0].tolist() == old
    assert kept["a/cub200"]["q"].tolist() == kept["b/cub200"]["q"].tolist()
    assert import_bank(out / "a" / "cub200.npz", tmp_path / "bank").num_rows == 20

    (recipes / "two.toml").write_text(text.replace("trained", "cub200"))
    with pytest.raises(SystemExit, match="may not train on testing sets: a/cub200"):
        run_script("bench/sample_banks.py", *options, monkeypatch=monkeypatch)


def test_slow_recipes_start_first_and_others_seed_by_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    in_turn = runpy.run_path(str(ROOT / "bench" / "train_recipes.py"))["in_turn"]
    runs = in_turn([Path("a.toml"), Path("b.toml"), Path("slow.toml")], [0, 1], ["slow"])
    assert "".join(f"{path.stem[0]}{seed}" for path, seed in runs) == "s0s1a0b0a1b1"


def test_label_extrapolation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_blobs(tmp_path, "cub200", encoder="efflite0", classes=6, rows=7, width=8)
    out = tmp_path / "out"
    options = ["--banks", tmp_path, "--out", out, "--sets", "efflite0/cub200", "--ways", 2, 6]
    options += ["--learners", "proto_head_paper", "--episodes", 2, "--queries", 1]
    run_script("bench/label_extrapolation.py", *options, "--device", "cpu", monkeypatch=monkeypatch)
    run_script("bench/label_extrapolation.py", *options, "--device", "cpu", monkeypatch=monkeypatch)
    rows = (out / "rows_efflite0_cub200.jsonl").read_text().splitlines()
    assert len(rows) == 4  # once, though asked twice
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


def test_join_validity_makes_one_report_of_curves_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = tmp_path / "tasks.toml"
    tasks.write_text("[[synthetic]]\nwidth = 2\nways = 2\n")
    [each] = declared_tasks(read_declaration(tasks)).tasks
    for name, draws, risks in (("good", 30, (0.3, 0.1)), ("bad", 20, (0.1, 0.3))):
        about = {"learner": name, "task": task_stamp(each.task), "stamp": "", "draws": draws}
        about |= {"shots": [1, 5], "queries": None, "seed": 0}
        noise = np.random.default_rng(0).normal(scale=0.02, size=(2, draws))
        curve = LearningCurve(
            task=each.task.name,
            ways=2,
            shots=(1, 5),
            risks=noise + np.array(risks)[:, None],
            bayes_risk=None,
        )
        KeptCurves(tmp_path / "curves").write(about, curve, "cuda")
    options = [tmp_path / "curves", "--tasks", tasks, "--out", tmp_path / "out", "--learners"]
    run_script("bench/join_validity.py", *options, "good", "bad", monkeypatch=monkeypatch)
    text = (tmp_path / "out" / "README.md").read_text()
    assert "30 support sets of each size; all learners answer the same ones" in text
    assert "Fewer support sets of each size: 20 of bad." in text
    assert "| good | 0 | 1 | 0 | 0 | 0 | nothing |" in text
    assert "| bad | 0 | 0 | 0 | 1 | 0 | synthetic |" in text
    with pytest.raises(SystemExit, match="0 curves of other on gaussian, width 2, 2 classes"):
        run_script("bench/join_validity.py", *options, "good", "other", monkeypatch=monkeypatch)


class Forked:
    """Do with a script what `subprocess.Popen` does, without a new interpreter."""

    def __init__(self, command: list[str], stdout: IO[bytes], **_: object) -> None:
        self.process = fork(RUN_SCRIPT, *command[1:], output=Path(stdout.name))

    def wait(self) -> int:
        return finish(self.process)


@pytest.mark.slow
def test_paper_runs_trains_measures_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_coded(tmp_path / "sample", "efflite0/rsscn7", 6, 8)
    recipes, work, out = tmp_path / "recipes", tmp_path / "work", tmp_path / "out"
    (recipes / "ablations").mkdir(parents=True)
    (recipes / "ablations" / "base.toml").write_text(RECIPE)
    options = ["--work", work, "--out", out, "--recipes", recipes, "--device", "cpu", "--steps", 2]
    options += ["--seeds", 0, "--no-baselines", "--shards", 1, "--episodes", 2]
    monkeypatch.setattr(subprocess, "Popen", Forked)
    run_script("bench/paper_runs.py", tmp_path / "sample", *options, monkeypatch=monkeypatch)
    said = capsys.readouterr().out
    assert [line.split(" after")[0] for line in said.splitlines()] == [
        *("banks: done", "train: done", "measure: done", "pages: done")
    ]
    [run] = (out / "ablations").glob("base*")
    assert json.loads((run / "log.jsonl").read_text().splitlines()[-1])["step"] == 2
    rows = [json.loads(line) for line in (out / "ablations/rows_0.jsonl").read_text().splitlines()]
    assert {row["bank"] for row in rows} == {"efflite0/rsscn7"}
