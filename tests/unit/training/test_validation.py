import math
from dataclasses import replace

import pytest
import torch

from helpers.short_runs import short_recipe
from unitail.errors import UserError
from unitail.framework.episode import Episode
from unitail.learners.registry import build_model
from unitail.randomness import stream
from unitail.tail.model import Tail
from unitail.tasks.batches import EpisodeRanges
from unitail.tasks.synthetic.gaussian import GaussianTasks
from unitail.tasks.synthetic.laws import SyntheticBatch
from unitail.training.processes import Processes
from unitail.training.step import TrainingStep
from unitail.training.validation import Validator

RECIPE = short_recipe(validation={"shots": [1, 2], "episodes": 40})
TASKS = GaussianTasks(feature_dims=(8,))


def test_every_validation_asks_the_same_questions() -> None:
    model = Tail(RECIPE.model)
    validator = Validator(TASKS, RECIPE, model, Processes(cpu=True))
    first = validator.measure(model)
    assert validator.measure(model) == first
    assert set(first["validation"]) == {"1-shot", "2-shot"}
    rows = list(first["validation"].values())
    assert all(row["episodes"] == 40 for row in rows)
    assert first["score"] == pytest.approx(sum(row["accuracy"] for row in rows) / 2)
    assert [row["loss"] for row in rows] == pytest.approx([math.log(3)] * 2, rel=0.5)
    assert rows[0]["prototypes"] > rows[0]["accuracy"] + 0.1, "the model is not trained"


def test_batches_stay_within_the_recipes_tokens_and_multiples() -> None:
    """So that any number of processes that trains can validate."""
    sizes = []

    class Watched(GaussianTasks):
        def choose_batch(self, ranges: EpisodeRanges, generator: torch.Generator) -> SyntheticBatch:
            batch = super().choose_batch(ranges, generator)
            sizes.append(batch.shape.episodes)
            return batch

    recipe = replace(RECIPE, episodes=replace(RECIPE.episodes, tokens=160, multiple=4))
    model = Tail(recipe.model)
    Validator(Watched(feature_dims=(8,)), recipe, model, Processes(cpu=True)).measure(model)
    assert all(size % 4 == 0 for size in sizes)
    assert max(sizes) == 16, "160 tokens hold 17 episodes of 9 tokens"


def test_what_is_chosen_does_not_shift_what_is_drawn() -> None:
    """The choice of a batch has a stream of its own, and so has every batch of every shots."""

    class Thirsty(GaussianTasks):
        def choose_batch(self, ranges: EpisodeRanges, generator: torch.Generator) -> SyntheticBatch:
            firsts.append(float(torch.rand(1, generator=generator)))
            return super().choose_batch(ranges, generator)

    firsts: list[float] = []
    recipe = replace(RECIPE, episodes=replace(RECIPE.episodes, tokens=160))
    model = Tail(recipe.model)
    both = [
        Validator(tasks, recipe, model, Processes(cpu=True))
        for tasks in (TASKS, Thirsty(feature_dims=(8,)))
    ]
    firsts.clear()  # it is tried out at once
    shots = recipe.validation.shots
    drawn = [
        [episode.support.features for each in shots for episode, _ in validator._batches(each)]
        for validator in both
    ]
    assert all(torch.equal(*pair) for pair in zip(*drawn, strict=True))
    assert len(set(firsts)) == len(firsts) == len(drawn[0]) > 2
    assert not torch.equal(drawn[0][0], drawn[0][1])


def test_validation_shares_no_stream_with_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a batch of the same sizes would be one that was trained on."""
    model, processes = Tail(RECIPE.model), Processes(cpu=True)
    seeds: list[int] = []

    def watched(
        seed: int, *names: str | int, device: torch.device | str = "cpu"
    ) -> torch.Generator:
        generator = stream(seed, *names, device=device)
        seeds.append(generator.initial_seed())
        return generator

    for module in ("step", "validation"):
        monkeypatch.setattr(f"unitail.training.{module}.stream", watched)
    step = TrainingStep(RECIPE, TASKS, model, processes)
    for number in range(3):
        step(number)
    trained = set(seeds)
    seeds.clear()
    Validator(TASKS, RECIPE, model, processes).measure(model)
    assert len(trained) >= 6, "what is chosen and what is drawn, in each step"
    assert seeds
    assert trained.isdisjoint(seeds)


def test_what_cannot_be_validated_is_refused_before_training() -> None:
    class Poor(GaussianTasks):
        def choose_batch(self, ranges: EpisodeRanges, generator: torch.Generator) -> SyntheticBatch:
            raise UserError("no data set has enough classes", got=ranges.ways, allowed="fewer")

    with pytest.raises(UserError, match="no data set has enough classes"):
        Validator(Poor(), RECIPE, Tail(RECIPE.model), Processes(cpu=True))


def test_every_visibility_that_is_trained_is_validated() -> None:
    recipe = short_recipe(
        model={"learner": "relational", "preset": "tiny"},
        training={"visibilities": ["isolated", "joint"]},
    )
    model = build_model(recipe.model)
    scores = Validator(TASKS, recipe, model, Processes(cpu=True)).measure(model)["validation"]
    assert set(scores) == {"1-shot isolated", "1-shot joint"}
    assert scores["1-shot isolated"]["accuracy"] != scores["1-shot joint"]["accuracy"]


class Sure(torch.nn.Module):
    """Gives the true classes a known score above the others, whatever it is shown."""

    def __init__(self, score: float) -> None:
        super().__init__()
        self.score = score

    def forward(self, episode: Episode, draw: object, visibility: object) -> torch.Tensor:
        return self.score * torch.nn.functional.one_hot(episode.query.class_indices, episode.ways)


def test_the_loss_is_the_mean_cross_entropy() -> None:
    validator = Validator(TASKS, RECIPE, Tail(RECIPE.model), Processes(cpu=True))
    for score in (0.0, 2.0):
        for row in validator.measure(Sure(score))["validation"].values():
            expected = math.log(math.exp(score) + 2) - score
            assert row["loss"] == pytest.approx(expected, rel=1e-5)
            assert row["accuracy"] == (1.0 if score else pytest.approx(1 / 3, abs=0.1))
