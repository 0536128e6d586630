from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from unitail.baselines.proto_head import ProtoHead
from unitail.errors import UserError, WrongWidth
from unitail.framework.episode import Support
from unitail.framework.learner import Paradigm
from unitail.framework.validity import Unsolved, ValidityReport
from unitail.randomness import stream
from unitail.tasks.arrays import ArrayTask
from unitail.tasks.synthetic.gaussian import GaussianTasks
from unitail.validity_study.kept import KeptCurves, task_stamp
from unitail.validity_study.report import write_validity_report
from unitail.validity_study.study import ValidityStudy, study_validity

INDICES = np.repeat([0, 1], 8)


def points(offset: float = 0.0, indices: np.ndarray = INDICES) -> ArrayTask:
    features = np.random.default_rng(0).normal(size=(16, 3)) + INDICES[:, None] + offset
    return ArrayTask(features=features, class_indices=indices, name="points")


class Counting:
    """Prototypes that count how often they are asked, and refuse four columns."""

    paradigm = Paradigm.EXPLICIT

    def __init__(self) -> None:
        self.asked = 0

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        self.asked += 1
        if query_features.shape[-1] == 4:
            raise WrongWidth("four columns", got="4", allowed="3")
        return ProtoHead().infer(support, query_features)


def study(learner: Counting, folder: Path, task: ArrayTask, **other: object) -> ValidityStudy:
    settings = {"shots": (1, 2), "draws": 3, "queries": 2, "stamps": {"counting": "one"}} | other
    return study_validity({"counting": learner}, [task], kept=KeptCurves(folder), **settings)


def test_a_curve_is_measured_once_and_comes_back_the_same(tmp_path: Path) -> None:
    first = study(Counting(), tmp_path, points())
    again = study(learner := Counting(), tmp_path, points())
    assert learner.asked == 0
    (ours,), (theirs,) = (each.reports["counting"].outcomes for each in (first, again))
    assert isinstance(ours, ValidityReport)
    assert isinstance(theirs, ValidityReport)
    np.testing.assert_array_equal(ours.curve.risks, theirs.curve.risks)
    curves = [replace(each.curve, risks=np.zeros((2, 3))) for each in (ours, theirs)]
    assert str(curves[0]) == str(curves[1])


@pytest.mark.parametrize(
    "change",
    [
        {"stamps": {"counting": "two"}},
        {"seed": 1},
        {"draws": 4},
        {"queries": 1},
        {"shots": (1, 3)},
        {"task": points(0.1)},
        {"task": points(indices=1 - INDICES)},
    ],
    ids=["weights", "seed", "draws", "queries", "shots", "features", "labels"],
)
def test_a_curve_of_something_else_is_not_taken_for_it(
    tmp_path: Path, change: dict[str, object]
) -> None:
    study(Counting(), tmp_path, points())
    study(learner := Counting(), tmp_path, **({"task": points()} | change))
    assert learner.asked > 0


def test_a_refusal_is_kept_with_its_reason(tmp_path: Path) -> None:
    task = ArrayTask(features=np.eye(16, 4), class_indices=INDICES, name="wide")
    for _ in range(2):
        (outcome,) = study(learner := Counting(), tmp_path, task).reports["counting"].outcomes
        assert isinstance(outcome, Unsolved)
        assert "four columns" in outcome.message
    assert learner.asked == 0


def test_what_ran_out_of_memory_is_tried_again(tmp_path: Path) -> None:
    class Crowded(Counting):
        def infer(self, support: Support, query_features: Tensor) -> Tensor:
            raise torch.cuda.OutOfMemoryError

    (outcome,) = study(Crowded(), tmp_path, points()).reports["counting"].outcomes
    assert outcome == Unsolved(task="points", message="out of memory")
    (outcome,) = study(Counting(), tmp_path, points()).reports["counting"].outcomes
    assert isinstance(outcome, ValidityReport)
    study(learner := Counting(), tmp_path, points())
    assert learner.asked == 0


def test_a_damaged_curve_says_how_to_go_on(tmp_path: Path) -> None:
    study(Counting(), tmp_path, points())
    (path,) = tmp_path.iterdir()
    path.write_text("{")
    with pytest.raises(UserError, match=r"learning curve .* cannot be read.*Delete it to measure"):
        study(Counting(), tmp_path, points())


def test_curves_of_two_kinds_of_device_are_said_to_have_other_episodes(tmp_path: Path) -> None:
    study(Counting(), tmp_path / "curves", points())
    (path,) = (tmp_path / "curves").iterdir()
    path.write_text(path.read_text().replace('"device": "cpu"', '"device": "cuda"'))
    both = study_validity(
        {"counting": Counting(), "other": Counting()},
        [points()],
        shots=(1, 2),
        draws=3,
        queries=2,
        kept=KeptCurves(tmp_path / "curves"),
        stamps={"counting": "one"},
    )
    write_validity_report(both, tmp_path / "report", command="")
    text = (tmp_path / "report" / "README.md").read_text()
    assert "the same kind of device answer the same ones (cpu: other; cuda: counting)" in text
    assert "all learners answer the same ones" not in text


def test_a_stamp_knows_the_data_of_a_task() -> None:
    assert task_stamp(points()) != task_stamp(points(0.1))
    assert task_stamp(points()).startswith("points, 3 wide, 2 classes ")

    def gaussian(separation: float, seed: int = 0) -> str:
        law = GaussianTasks(feature_dims=(3,), separation=(separation, separation))
        return task_stamp(law.task(ways=2, generator=stream(seed), name="one"))

    assert gaussian(2.0) == gaussian(2.0)
    assert len({gaussian(2.0), gaussian(3.0), gaussian(2.0, seed=1)}) == 3
