import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from helpers.forks import COMMAND, KILLED_AFTER_A_RESULT, finish, fork, fork_group
from helpers.known_learners import write_blobs
from helpers.short_runs import short_recipe
from unitail.benchmark.suite_file import suite_names
from unitail.cli import main
from unitail.errors import UserError
from unitail.learners.checkpoint import save_model
from unitail.learners.pretrained import SHIPPED_DRAWS
from unitail.learners.registry import SHIPPED, explicit_learners
from unitail.nn.episode_model import Visibility
from unitail.tail.config import TailConfig
from unitail.tail.model import Tail
from unitail.tasks.batches import QueryShares
from unitail.training.run_folder import RunRecord

SMALL = TailConfig(
    projected_dim=8,
    label_dim=4,
    hidden_dim=12,
    layers=1,
    heads=2,
    mlp_dim=16,
    dictionary_size=4,
    visibility=Visibility.ISOLATED,
)


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Return a folder with a few banks of the suite and a model of at most four classes."""
    for encoder, name, classes in (
        ("efflite0", "tiny_imagenet", 20),
        ("efflite0", "cub200", 6),
        ("minilm", "imdb", 2),
    ):
        write_blobs(tmp_path / "banks", name, encoder=encoder, classes=classes)
    save_model(Tail(SMALL), tmp_path / "runs" / "my_tail" / "model")
    return tmp_path


def _options(folder: Path, *more: object, suite: str = "banks") -> list[str]:
    places = [f"--{name}={folder / name}" for name in ("banks", "runs", "out")]
    numbers = ["--episodes=6", "--queries=3", "--device=cpu", f"--suite={suite}"]
    return ["bench", *places, *numbers, *(str(each) for each in more)]


def _run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "120"}).invoke(main.app, list(arguments))


@pytest.mark.slow
def test_the_benchmark_measures_and_reports(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tail", "tail-50w"):  # eight draws of each would take most of the time
        monkeypatch.setitem(SHIPPED_DRAWS, name, 1)
    result = _run(*_options(folders, "--draws=2", "--episodes=2", "--queries=1"))
    assert result.exit_code == 0, result.output
    words = ("my_tail", "linear_probe_paper", "unseen image domains", "cannot", "without a recipe")
    for word in (*words, "5-way 1-shot", "5-way 5-shot", "not there: efflite0/rsscn7"):
        assert word in result.output
    summary = pd.read_csv(folders / "out" / "summary.csv")
    assert set(summary["learner"]) == {*explicit_learners(), *SHIPPED, "my_tail"}
    assert set(summary["group"]) == {"in-domain, held-out classes", "unseen image domains", "text"}
    tail = summary[summary["learner"] == "my_tail"].set_index("data_set")["outcome"]
    assert set(tail["cub200"]) == {"cannot"}
    assert set(tail["imdb"]) == {"answered"}
    text = (folders / "out" / "README.md").read_text()
    assert "unitail bench --suite banks --banks BANKS --runs RUNS --shots 1 --shots 5" in text
    assert "--episodes 2 --draws 2 --seed 0\n" in text
    assert str(folders) not in text
    assert "- Learning algorithms, explicit: " in text
    assert "; implicit: tail, tail_50w, my_tail" in text
    assert "; mixed: unitail, unitail_joint, unitail_joint_balanced" in text


def test_transduction_is_named(folders: Path) -> None:
    save_model(Tail(replace(SMALL, visibility=Visibility.JOINT)), folders / "runs/pooled/model")
    result = _run(*_options(folders, "--shots=1", "--learner=pooled", "--learner=my_tail"))
    assert result.exit_code == 0, result.output
    note = (
        "- Transductive: queries see each other, so answers depend on the other queries: pooled.\n"
    )
    assert note in (folders / "out" / "README.md").read_text()


def test_options_reach_the_protocol(folders: Path) -> None:
    options = ("--shots=2", "--ways=3", "--shares=random", "--seed=7", "--learner=my_tail")
    result = _run(*_options(folders, *options))
    assert result.exit_code == 0, result.output
    rows = pd.read_parquet(folders / "out" / "rows.parquet")
    assert set(rows["protocol"]) == {"3-way 2-shot, Dirichlet(1) queries"}
    assert set(rows["learner"]) == {"my_tail"}
    assert set(rows["ways"]) == {2, 3}
    text = (folders / "out" / "README.md").read_text()
    assert "--shares random --draws 1 --seed 7 --learner my_tail\n" in text


@pytest.mark.slow
def test_a_killed_benchmark_resumes(folders: Path) -> None:
    options = _options(folders, "--learner=proto_head_paper")
    killed = fork(KILLED_AFTER_A_RESULT, *options, output=folders / "output")
    assert finish(killed) == -signal.SIGKILL, (folders / "output").read_text()
    parts = folders / "out" / "parts"
    done = {path: path.stat().st_mtime_ns for path in parts.glob("*.parquet")}
    assert len(done) == 1
    result = _run(*options)
    assert result.exit_code == 0, result.output
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert len(pd.read_csv(folders / "out" / "summary.csv")) == 3 * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--banks={}/runs"], r"no bank of the suite 'banks'.*`unitail bank import`"),
        (["--suite=other"], "unknown suite: got other; allowed: all, banks, "),
        (["--encoder=net"], "which encoder replaces which: got net; allowed: OLD=NEW"),
        (["--learner=nobody"], "unknown learner: got nobody; allowed: .*my_tail"),
        (["--device=tpu"], "device is unknown: got 'tpu'; allowed: auto, cpu"),
    ],
)
def test_mistakes_are_reported(folders: Path, options: list[str], message: str) -> None:
    result = _run(*_options(folders, *(each.format(folders) for each in options)))
    assert isinstance(result.exception, UserError), result.output
    with pytest.raises(UserError, match=message):
        raise result.exception


def test_a_users_own_banks_and_suite(tmp_path: Path) -> None:
    """Any bank is tested; a suite file adds settings, and queries may come from another bank.

    A custom learner needs only `infer`.
    """
    for name, seed in (("mine", 0), ("other", 1)):
        write_blobs(tmp_path / "banks", name, encoder="net", seed=seed)
    (tmp_path / "own.py").write_text(
        "class Even:\n"
        "    def infer(self, support, queries):\n"
        "        return queries.new_zeros(*queries.shape[:2], support.ways).log_softmax(-1)\n"
    )
    learners = "--learner=proto_head_centred", f"--learner={tmp_path}/own.py:Even"
    result = _run(*_options(tmp_path, *learners, "--shots=1", suite="all"))
    assert result.exit_code == 0, result.output
    assert "explicit: proto_head_centred, Even." in result.stdout
    assert "--learner own.py:Even\n" in _readme(tmp_path)
    assert "| learner | net/mine, 5-way | net/other, 5-way |" in _readme(tmp_path)
    own = tmp_path / "own.toml"
    own.write_text(
        'title = "Mine"\nencoder = "old"\nways = [3]\nshots = [2]\nepisodes = 5\n'
        'learners = ["proto_head_centred", "not_trained"]\n'
        '[[groups]]\nname = "across"\nsets = ["mine->other"]\noverlap = ["mine->other"]\n'
    )
    result = _run(*_options(tmp_path, "--encoder=old=net", suite=str(own)))
    assert result.exit_code == 0, result.output
    text = _readme(tmp_path)
    assert "# Mine\n" in text
    assert "unitail bench --suite own.toml --banks BANKS --runs RUNS --encoder old=net" in text
    assert "--shots 2 --ways 3 --queries 3 --episodes 6 --draws 1 --seed 0\n" in text
    assert "| learner | net/mine->other*, 3-way |" in text
    assert "- Learners of the suite without a trained model here: not_trained.\n" in text


def test_the_smoke_suite_needs_no_data(tmp_path: Path) -> None:
    result = _run(*_options(tmp_path, "--shots=1", "--learner=proto_head_centred", suite="smoke"))
    assert result.exit_code == 0, result.output
    assert "digits, 5-way | scikit-learn/wine, 3-way | " in _readme(tmp_path)


@pytest.mark.slow
def test_two_processes_of_a_launcher_share_the_work(tmp_path: Path) -> None:
    options = _options(tmp_path, "--shots=1", "--learner=proto_head_centred", suite="smoke")
    said = fork_group(COMMAND, *options, output=tmp_path / "log")
    locks = {path.name for path in (tmp_path / "out" / "parts").glob(".lock*")}
    assert {".lock.0.2", ".lock.1.2"} <= locks, said  # each had its shard
    summary = pd.read_csv(tmp_path / "out" / "summary.csv")
    assert set(summary["data_set"]) == {"digits", "wine", "breast_cancer"}
    assert said.count("Tables, plots and rows are in") == 1  # the first alone reports


def _readme(folder: Path) -> str:
    return (folder / "out" / "README.md").read_text()


def test_a_model_that_has_seen_the_test_is_refused(folders: Path) -> None:
    recipe = short_recipe(sources={"banks": {"banks": ["*"], "held_out_from": ["a"]}})
    path = folders / "runs" / "my_tail" / "recipe.json"
    path.write_text(RunRecord(recipe, {"sscd/cub200": "hash"}).text())
    result = _run(*_options(folders))
    assert "my_tail was trained on classes of efflite0/cub200" in str(result.exception)


def test_without_the_extra_nothing_begins(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = _run(*_options(folders))
    assert "matplotlib is not installed" in str(result.exception)
    assert "pip install 'unitail[report]'" in str(result.exception)
    assert not (folders / "out").exists()


def test_help_names_what_can_be_chosen() -> None:
    words = " ".join(_run("bench", "--help").output.replace("│", " ").split())
    listed = words.split("Suite of data sets and protocols: ")[1].split("of your own")[0]
    assert all(name in listed for name in suite_names())
    shares = words.split("Class shares among the queries: ")[1].split(".")[0]
    assert all(each.value in shares for each in QueryShares)


def test_the_command_needs_none_of_the_extra_to_load() -> None:
    blocked = "import sys; sys.modules.update(pandas=None, pyarrow=None, matplotlib=None)"
    code = f"{blocked}; from unitail.cli.main import app; app(['bench', '--help'])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert result.returncode == 0, result.stderr
