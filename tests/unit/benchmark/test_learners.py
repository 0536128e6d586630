import importlib
import json
import shutil
from pathlib import Path

import pytest

from helpers.known_learners import SureOfFirst
from unitail.benchmark.learners import explicit_fingerprint, load_learners, missing_learners
from unitail.errors import UserError
from unitail.learners import pretrained
from unitail.learners.checkpoint import save_model
from unitail.learners.in_context import InContextLearner
from unitail.learners.pretrained import shipped_folder, write_manifest
from unitail.learners.registry import SHIPPED, explicit_learners, preset
from unitail.tail.model import Tail
from unitail.training.run_folder import RunRecord


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a folder with two trained models and a run without one."""
    save_model(Tail(preset("tiny"), seed=0), tmp_path / "first" / "model")
    save_model(Tail(preset("tiny"), seed=1), tmp_path / "second" / "model")
    (tmp_path / "unfinished" / "checkpoints").mkdir(parents=True)
    return tmp_path


def test_all_learners_are_found(runs: Path) -> None:
    learners = load_learners(runs, draws=3)
    assert [each.name for each in learners] == [*explicit_learners(), *SHIPPED, "first", "second"]
    assert len({each.fingerprint for each in learners}) == len(learners)
    trained = learners[-1].learner
    assert isinstance(trained, InContextLearner)
    assert trained.num_draws == 3
    assert not trained.model.training
    assert learners[-1].run == runs / "second"


def test_learners_whose_queries_see_each_other_are_known(runs: Path) -> None:
    config = runs / "second" / "model" / "config.json"
    config.write_text(config.read_text().replace("isolated", "joint"))
    assert [each.name for each in load_learners(runs) if each.transductive] == [
        "unitail_joint",
        "unitail_joint_balanced",
        "tail",
        "tail_50w",
        "second",
    ]


def test_without_runs_there_are_the_explicit_and_the_shipped_ones(tmp_path: Path) -> None:
    learners = load_learners(tmp_path / "none")
    assert [each.name for each in learners] == [*explicit_learners(), *SHIPPED]
    isolated, joint = learners[-2:]
    assert isolated.fingerprint != joint.fingerprint
    assert isolated.run is not None
    for each in learners[-len(SHIPPED) :]:
        assert each.run is not None
        record = RunRecord.read(each.run)
        assert record is not None, "so that what it has seen can be checked"
        assert record.data


def test_some_can_be_chosen(runs: Path) -> None:
    learners = load_learners(runs, ["second", "proto_head_paper"])
    assert [each.name for each in learners] == ["second", "proto_head_paper"]


def test_mistakes_are_reported(runs: Path) -> None:
    with pytest.raises(UserError, match=r"unknown learner: got third; allowed: .*first, second"):
        load_learners(runs, ["third"])
    shutil.copytree(runs / "first", runs / "proto_head_paper")
    with pytest.raises(UserError, match="has the name of another learner: got proto_head_paper"):
        load_learners(runs)


def test_the_fingerprint_of_a_model_is_its_weights_configuration_and_draws(runs: Path) -> None:
    def fingerprint(name: str = "first", draws: int = 1) -> str:
        return load_learners(runs, [name], draws=draws)[0].fingerprint

    before = fingerprint()
    assert fingerprint() == before
    assert fingerprint("second") != before
    assert fingerprint(draws=2) != before
    config = runs / "first" / "model" / "config.json"
    config.write_text(config.read_text().replace("isolated", "joint"))
    assert fingerprint() != before


def test_the_fingerprint_of_a_shipped_model_is_its_configuration_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fingerprint() -> str:
        return load_learners(tmp_path, ["unitail"])[0].fingerprint

    before = fingerprint()
    config = Path(shutil.copytree(shipped_folder("default"), tmp_path / "default")) / "config.json"
    monkeypatch.setattr(pretrained, "FOLDER", config.parent)
    assert fingerprint() == before
    table = json.loads(config.read_text())
    table["config"]["coordinate_limit"] = 3.5
    config.write_text(json.dumps(table))
    write_manifest(config.parent)
    assert fingerprint() != before  # of the same weights


def test_the_fingerprint_of_others_is_class_and_arguments() -> None:
    assert explicit_fingerprint(SureOfFirst(0.5)) == explicit_fingerprint(SureOfFirst(0.5))
    assert explicit_fingerprint(SureOfFirst(0.5)) != explicit_fingerprint(SureOfFirst(0.6))
    assert "SureOfFirst(probability=0.5)" in explicit_fingerprint(SureOfFirst(0.5))
    prints = {explicit_fingerprint(learner) for learner in explicit_learners().values()}
    assert len(prints) == len(explicit_learners())
    assert not [each for each in prints if " at 0x" in each]


def test_a_change_in_what_the_class_uses_beside_it_changes_the_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "whole_of_it": "from half_of_it import PART\nclass Whole: ...\n",
        "half_of_it": "import part_of_it\nPART = part_of_it.FACTOR\n",
        "part_of_it": "import half_of_it\nFACTOR = 1\n",  # a circle has an end, too
        "other": "FACTOR = 1\n",
    }
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    learner = importlib.import_module("whole_of_it").Whole()
    prints = [explicit_fingerprint(learner)]
    for name in ("whole_of_it", "half_of_it", "part_of_it"):
        (tmp_path / f"{name}.py").write_text(files[name] + "# changed\n")
        prints.append(explicit_fingerprint(learner))
    assert len(set(prints)) == 4
    (tmp_path / "other.py").write_text("FACTOR = 2\n")  # which nobody uses
    assert explicit_fingerprint(learner) == prints[-1]


def test_a_class_without_a_file_has_a_fingerprint() -> None:
    space: dict[str, type] = {}
    exec("class Homeless:\n    __module__ = '__nowhere__'", space)
    assert explicit_fingerprint(space["Homeless"]()) == "__nowhere__.Homeless() no file"


OWN = """
import torch

class Nearest:
    def __init__(self, power=2):
        self.power = power

    def infer(self, support, query_features):
        distances = torch.cdist(query_features, support.features, p=self.power)
        near = torch.nn.functional.one_hot(support.class_indices, support.ways).double()
        return ((-distances).softmax(dim=-1).double() @ near).log()

class tail(Nearest):
    pass
"""


def test_a_custom_learner_takes_part(runs: Path) -> None:
    file = runs / "mine.py"
    file.write_text(OWN)
    named, own = load_learners(runs, ["first", f"{file}:Nearest"], own=True)
    assert (named.name, own.name, own.paradigm) == ("first", "Nearest", "explicit")
    assert own.record() is None
    before = own.fingerprint
    file.write_text(OWN.replace("power=2", "power=1"))
    (changed,) = load_learners(runs, [f"{file}:Nearest"], own=True)
    assert changed.fingerprint != before, "so that its old results are void"
    for names in (["tail"], ["Nearest", "Nearest"]):
        with pytest.raises(UserError, match=r"another learner's name: got .*Rename"):
            load_learners(runs, [f"{file}:{name}" for name in names], own=True)


def test_a_file_that_a_suite_names_is_not_run(runs: Path) -> None:
    (runs / "evil.py").write_text("raise SystemExit")
    assert missing_learners([f"{runs}/evil.py:x", "tail"], runs) == [f"{runs}/evil.py:x"]
    with pytest.raises(UserError, match=r"unknown learner: got .*evil\.py:x"):
        load_learners(runs, [f"{runs}/evil.py:x"])


def test_a_run_with_the_name_of_a_file_is_a_run(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runs of a folder may have any names."""
    monkeypatch.chdir(runs)
    Path("evil.py").write_text("raise SystemExit")
    save_model(Tail(preset("tiny"), seed=2), runs / "evil.py:x" / "model")
    for own in (False, True):
        (loaded,) = load_learners(runs, ["evil.py:x"], own=own)
        assert (loaded.name, loaded.run) == ("evil.py:x", runs / "evil.py:x")
