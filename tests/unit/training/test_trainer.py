"""Learning for real: seconds of meta-training, then tasks that were never seen."""

import copy
import math
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.short_runs import entries, same_weights, short_recipe, weights
from unitail.baselines.proto_head import ProtoHead
from unitail.errors import NonFiniteLoss
from unitail.framework.episode import Episode
from unitail.framework.learner import Inference
from unitail.framework.statistics import MeanInterval
from unitail.learners.checkpoint import load_model
from unitail.learners.in_context import InContextLearner
from unitail.randomness import stream
from unitail.tail.model import Tail
from unitail.tasks.batches import Batch, EpisodeRanges, EpisodeSource
from unitail.tasks.synthetic.gaussian import GaussianTasks
from unitail.training.data import build_sources
from unitail.training.processes import Processes
from unitail.training.recipe import Recipe
from unitail.training.run_log import Entry
from unitail.training.trainer import Trainer

TASKS: dict[str, Any] = {"feature_dims": [8, 12, 16], "separation": [2.0, 4.0]}
LEARNING = short_recipe(
    model={"label_dim": 16, "hidden_dim": 32, "mlp_dim": 64},
    episodes={"ways": [3, 4], "shots": [1, 4], "queries": 3, "tokens": 1200},
    sources={"gaussian": TASKS},
    training={"steps": 140, "learning_rate": 6e-3, "warmup_steps": 20, "checkpoint_every": 140},
    validation={"every": 140, "episodes": 40},
)
UNSEEN_WIDTH, UNSEEN_WAYS = 10, 5


def train(
    recipe: Recipe, folder: Path, on_entry: Callable[[Entry], None] = lambda entry: None
) -> Trainer:
    sources, processes = build_sources(recipe, None), Processes(cpu=True)
    trainer = Trainer(recipe, folder, sources, processes=processes, on_entry=on_entry)
    trainer.run()
    return trainer


def accuracy_on_unseen_tasks(learner: Inference) -> MeanInterval:
    """Measure on fresh tasks of a width and a number of classes that training never had."""
    tasks = GaussianTasks(feature_dims=(UNSEEN_WIDTH,), separation=(2.0, 4.0))
    episode = tasks.instances(
        episodes=300, ways=UNSEEN_WAYS, shots=3, queries=4, generator=stream(99, "unseen")
    )
    answers = learner.infer(episode.support, episode.query.features).argmax(-1)
    right = (answers == episode.query.class_indices).double().mean(dim=1)
    return MeanInterval.of(right.numpy())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    train(LEARNING, folder)
    return folder


def test_an_untrained_model_guesses() -> None:
    accuracy = accuracy_on_unseen_tasks(InContextLearner(Tail(LEARNING.model), num_draws=4))
    assert accuracy.high < 1 / UNSEEN_WAYS + 0.1


@pytest.mark.slow
def test_a_trained_model_learns_tasks_it_has_never_seen(trained: Path) -> None:
    """Far above what no training can give, though neither width nor classes were trained on."""
    model = load_model(trained / "model")
    accuracy = accuracy_on_unseen_tasks(InContextLearner(model, num_draws=4))
    assert accuracy.low > 0.6
    assert accuracy.mean > accuracy_on_unseen_tasks(ProtoHead()).mean - 0.15


@pytest.mark.slow
def test_the_log_records_the_course_of_training(trained: Path) -> None:
    log = entries(trained)
    shares = [entry["share_of_chance"] for entry in log if "loss" in entry]
    assert shares[0] > 0.9
    assert shares[-1] < 0.6
    validation = log[-1]["validation"]["1-shot"]
    assert validation["episodes"] == 40
    assert validation["accuracy"] > 0.5
    assert 0 < validation["loss"] < math.log(3), "of guessing"
    assert 0.5 < validation["prototypes"] <= 1


def test_the_best_model_is_the_one_with_the_best_validation(tmp_path: Path) -> None:
    recipe = short_recipe(validation={"every": 2, "shots": [1, 2]})
    scores: dict[int, float] = {}
    snapshots: dict[int, dict[str, torch.Tensor]] = {}

    def watch(entry: Entry) -> None:
        if "score" in entry:
            scores[entry["step"]] = entry["score"]
            snapshots[entry["step"]] = copy.deepcopy(trainer.model.state_dict())

    sources, processes = build_sources(recipe, None), Processes(cpu=True)
    trainer = Trainer(recipe, tmp_path, sources, processes=processes, on_entry=watch)
    trainer.run()
    best = max(scores, key=lambda step: scores[step])
    assert trainer.best == scores[best]
    assert same_weights(weights(tmp_path / "best"), snapshots[best])


@pytest.mark.parametrize("visibility", ["isolated", "joint", "causal"])
def test_the_same_seed_gives_the_same_weights(tmp_path: Path, visibility: str) -> None:
    model = {"visibility": visibility}
    for name, seed in (("one", 0), ("same", 0), ("other", 1)):
        recipe = short_recipe(model=model, training={"steps": 3, "seed": seed})
        train(recipe, tmp_path / name)
    one, same, other = (weights(tmp_path / name / "model") for name in ("one", "same", "other"))
    assert same_weights(one, same)
    assert not same_weights(one, other)


@pytest.mark.parametrize(
    "options",
    [
        {"optimiser": "adamw", "weight_decay": 0.1},
        {"schedule": "cyclic", "cycle_steps": 6},
        {"precision": "bfloat16"},
        {"dictionary_growth": 0.5},
    ],
)
def test_options_of_training_change_the_result(tmp_path: Path, options: dict[str, Any]) -> None:
    train(short_recipe(), tmp_path / "plain")
    trainer = train(short_recipe(training=options), tmp_path / "other")
    assert trainer.done == 12
    changed = weights(tmp_path / "other" / "model")
    assert not same_weights(changed, weights(tmp_path / "plain" / "model"))
    assert all(tensor.dtype == torch.float32 for tensor in changed.values())


def test_a_signal_saves_and_leaves_and_the_run_goes_on_later(tmp_path: Path) -> None:
    def interrupt(entry: Entry) -> None:
        if entry["step"] == 6 and "loss" in entry:
            os.kill(os.getpid(), signal.SIGTERM)

    recipe = short_recipe()
    stopped = train(recipe, tmp_path / "stopped", interrupt)
    assert stopped.stopped_by is signal.SIGTERM
    assert stopped.folder.checkpoints()[-1].name == "step-00000006"
    assert not stopped.folder.model.exists()
    resumed = train(recipe, tmp_path / "stopped")
    assert (resumed.started, resumed.done, resumed.stopped_by) == (6, 12, None)
    train(recipe, tmp_path / "whole")
    assert same_weights(
        weights(tmp_path / "stopped" / "model"), weights(tmp_path / "whole" / "model")
    )
    steps = [entry["step"] for entry in entries(tmp_path / "stopped")]
    assert steps == [entry["step"] for entry in entries(tmp_path / "whole")]


@pytest.mark.parametrize(
    ("seed", "visibilities"),
    [(0, ["isolated"]), (8, ["isolated", "joint"])],
    ids=["never joint", "joint after the stop"],
)
def test_a_run_goes_on_whose_joint_layers_were_idle_so_far(
    tmp_path: Path, seed: int, visibilities: list[str]
) -> None:
    fields = {"steps": 8, "checkpoint_every": 2, "seed": seed, "visibilities": visibilities}
    recipe = short_recipe(model={"learner": "relational", "preset": "tiny"}, training=fields)

    def interrupt(entry: Entry) -> None:
        if entry["step"] == 2 and "loss" in entry:
            os.kill(os.getpid(), signal.SIGTERM)

    assert train(recipe, tmp_path / "stopped", interrupt).done == 2
    train(recipe, tmp_path / "stopped")
    trainer = train(recipe, tmp_path / "whole")
    assert same_weights(
        weights(tmp_path / "stopped" / "model"), weights(tmp_path / "whole" / "model")
    )
    trained = any(name.startswith("joint_blocks") for name in _trained(trainer))
    assert trained == ("joint" in visibilities)
    last = trainer.folder.checkpoints()[-1]
    for model in (trainer.model, load_model(last), load_model(tmp_path / "whole" / "model")):
        assert list(model.trained_for) == visibilities


def _trained(trainer: Trainer) -> list[str]:
    """Name the weights that some step has changed."""
    state = trainer.step.optimiser.state
    return [name for name, weight in trainer.model.named_parameters() if weight in state]


@dataclass(frozen=True, eq=False)
class PoisonedBatch(Batch):
    """A batch with an infinite feature."""

    batch: Batch

    def sample(self, generator: torch.Generator, shard: slice | None = None) -> Episode:
        episode = self.batch.sample(generator, shard)
        features = episode.support.features.clone()
        features[0, 0, 0] = torch.inf
        return replace(episode, support=replace(episode.support, features=features))


@dataclass
class Poisoned:
    """A source whose batch of one step is poisoned."""

    source: EpisodeSource
    step: int

    def choose_batch(self, ranges: EpisodeRanges, generator: torch.Generator) -> Batch:
        batch = self.source.choose_batch(ranges, generator)
        self.step -= 1
        return PoisonedBatch(batch.shape, batch) if self.step == -1 else batch


def test_a_loss_that_is_not_finite_stops_the_run_and_spares_the_checkpoint(tmp_path: Path) -> None:
    recipe = short_recipe()
    sources = build_sources(recipe, None)
    sources = replace(sources, training=Poisoned(sources.training, step=6))
    trainer = Trainer(recipe, tmp_path, sources, processes=Processes(cpu=True))
    message = r"the loss of step 6 is not finite: got nan on \d+ episodes of gaussian \(. ways"
    with pytest.raises(NonFiniteLoss, match=message):
        trainer.run()
    assert [path.name for path in trainer.folder.checkpoints()] == ["step-00000004"]
    kept = weights(trainer.folder.checkpoints()[0])
    assert all(tensor.isfinite().all() for tensor in kept.values())


def test_a_gradient_that_is_not_finite_is_never_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss of that very step is fine, but the weights after it are not."""
    real, calls = torch.nn.utils.clip_grad_norm_, []

    def infinite(parameters: Any, max_norm: float) -> torch.Tensor:  # noqa: ANN401
        weights = list(parameters)
        calls.append(None)
        if len(calls) == 4:
            weights[0].grad[0] = torch.inf
        return real(weights, max_norm)

    monkeypatch.setattr("unitail.training.step.nn.utils.clip_grad_norm_", infinite)
    with pytest.raises(NonFiniteLoss, match="the loss of step 3 is not finite"):
        train(short_recipe(), tmp_path)
    assert not list(tmp_path.glob("checkpoints/*"))


def test_a_resumed_run_remembers_the_best_score(tmp_path: Path) -> None:
    recipe = short_recipe(validation={"every": 4})
    first = train(recipe, tmp_path)
    for last in ("model", "checkpoints/step-00000012"):
        (tmp_path / last).rename(tmp_path / f"away-{Path(last).name}")
    resumed = train(recipe, tmp_path)
    assert (resumed.started, resumed.best) == (8, first.best)
