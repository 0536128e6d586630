r"""Train only the weighing of the default model, with its blocks frozen.

    python tools/fit_weighing.py recipes/default/weighing.toml \
        --blocks MODEL --banks BANKS --out RUN

MODEL is the folder of the relational model that provides the blocks; an earlier version without a
weighing works too. The recipe determines the tasks, as for `unitail train`; `steps` is the number
of batches. Since blocks are frozen, each batch is run once on the CPU, and its results are cached:
the candidates' scores of some queries, the blocks' correction, and the evidence. Then the weighing
is trained on the cache for several rounds, with the cross-entropy of the whole answer and of the
first answer alone.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from unitail.framework.episode import Episode
from unitail.learners.checkpoint import WEIGHTS_FILE, save_weights
from unitail.nn.episode_model import NoDraw, Visibility
from unitail.randomness import stream
from unitail.relational.config import RelationalConfig
from unitail.relational.model import Relational
from unitail.relational.weighing import Evidence
from unitail.tasks.batches import EpisodeSource
from unitail.training.data import Sources, build_sources
from unitail.training.processes import Processes
from unitail.training.recipe import Recipe, read_recipe
from unitail.training.run_folder import RECIPE_FILE, RunRecord
from unitail.training.step import draw_pool, draw_visibility
from unitail.training.validation import Validator

MAX_QUERIES = 40
"""Largest number of queries to cache per episode."""
ROUNDS = 16
LEARNING_RATE = 4e-3
WEIGHT_DECAY = 1e-3
FIRST_SHARE = 0.3
"""Weight of the first answer's loss relative to the whole answer's."""
AT_ONCE = 8
"""Number of batches per optimiser step."""


@dataclass(frozen=True, eq=False)
class Kept:
    """Cached results of a batch of episodes."""

    source: str
    mode: str
    ways: int
    shots: float
    evidence: Evidence
    candidates: Tensor
    correction: Tensor
    truth: Tensor


def load_blocks(folder: Path, config: RelationalConfig) -> Relational:
    """Build a model with the frozen blocks of another."""
    model = Relational(config)
    weights = load_file(folder / WEIGHTS_FILE)
    weights.pop("guess", None)  # earlier versions had this instead of a weighing
    missing, unknown = model.load_state_dict(weights, strict=False)
    if unknown or any(not name.startswith("weighing.") for name in missing):
        raise SystemExit(f"{folder} has other blocks: {missing} are missing, {unknown} unknown")
    return model.requires_grad_(False).eval()


@torch.no_grad()
def collect(
    model: Relational, recipe: Recipe, source: EpisodeSource, steps: range, name: str
) -> Iterator[Kept]:
    """Run the batches of the given steps and yield the cached results."""
    seed, training = recipe.training.seed, recipe.training
    for step in steps:
        batch = source.choose_batch(recipe.episodes, stream(seed, name, "plan", step))
        episode = batch.sample(stream(seed, name, "batch", step))
        visibility = draw_visibility(training.visibilities, stream(seed, name, "who", step))
        episode, pool = draw_pool(episode, training.pools, stream(seed, name, "pool", step))
        if pool is not None:
            visibility = Visibility.ISOLATED
        yield keep(model, episode, visibility or model.visibility, pool, batch.shape.source)


def keep(
    model: Relational,
    episode: Episode,
    visibility: Visibility,
    pool: Tensor | None,
    source: str,
) -> Kept:
    """Run one batch, and return what the weighing is trained on."""
    support, queries = episode.support, episode.query.features
    truth = episode.query.class_indices
    assert truth is not None, "sources sample labelled queries"
    read = model.read(support, NoDraw(), visibility, pool)
    if read.seen is not None:
        seen, n = read.seen, 0
        relations = seen.frame.relate(queries)
    else:
        n = support.num_support
        seen, relations = model._relate(support, torch.cat([support.features, queries], dim=1))
    candidates = relations.candidates[:, :, n:]
    scores = model.answer(read, queries)
    correction = (scores - seen.weights.first_answer(candidates)) / seen.weights.strength
    first_queries = slice(MAX_QUERIES)
    return Kept(
        source=source,
        mode="pool" if pool is not None else str(visibility),
        ways=support.ways,
        shots=support.num_support / support.ways,
        evidence=seen.frame.evidence,
        candidates=candidates[:, :, first_queries].contiguous(),
        correction=correction[:, first_queries].contiguous(),
        truth=truth[:, first_queries].contiguous(),
    )


def losses(model: Relational, kept: Kept) -> tuple[Tensor, Tensor, Tensor]:
    """Return the losses of the whole and of the first answers, and the scores."""
    weights = model.weighing(kept.evidence, kept.shots, kept.ways)
    first = weights.first_answer(kept.candidates)
    scores = first + weights.strength * kept.correction
    truth = kept.truth.flatten()
    whole, alone = (F.cross_entropy(each.flatten(0, 1), truth) for each in (scores, first))
    return whole, alone, scores


def train(model: Relational, batches: Sequence[Kept], seed: int) -> None:
    """Train the weighing on cached batches."""
    model.weighing.requires_grad_(True)
    optimiser = torch.optim.AdamW(
        model.weighing.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY
    )
    steps = ROUNDS * (len(batches) // AT_ONCE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for number in range(ROUNDS):
        order = torch.randperm(len(batches), generator=stream(seed, "order", number)).tolist()
        for start in range(0, len(order) - AT_ONCE + 1, AT_ONCE):
            pairs = [losses(model, batches[place]) for place in order[start : start + AT_ONCE]]
            loss = torch.stack([whole + FIRST_SHARE * alone for whole, alone, _ in pairs]).mean()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.weighing.parameters(), 1.0)
            optimiser.step()
            schedule.step()
    model.weighing.requires_grad_(False)


@torch.no_grad()
def validate(model: Relational, batches: Sequence[Kept]) -> dict[str, dict[str, float]]:
    """Return accuracy, loss and loss of the first answer, by mode."""
    rows: dict[str, list[list[float]]] = {}
    for kept in batches:
        whole, alone, scores = losses(model, kept)
        accuracy = (scores.argmax(-1) == kept.truth).float().mean()
        rows.setdefault(kept.mode, []).append([float(accuracy), float(whole), float(alone)])
    names = ("accuracy", "loss", "loss of the first answer")
    return {
        mode: dict(zip(names, torch.tensor(own).mean(dim=0).tolist(), strict=True))
        for mode, own in rows.items()
    }


def main() -> None:
    """Collect, train, validate, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--blocks", type=Path, required=True)
    parser.add_argument("--banks", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    recipe = read_recipe(args.recipe)
    assert isinstance(recipe.model, RelationalConfig), "the recipe is for a relational model"
    sources = build_sources(recipe, args.banks)
    model, start = load_blocks(args.blocks, recipe.model), time.monotonic()
    model.weighing.initialise(stream(recipe.training.seed, "weighing"))
    steps = recipe.training.steps
    batches = list(collect(model, recipe, sources.training, range(steps), "training"))
    held_out = range(max(1, steps // 10))
    unseen = list(collect(model, recipe, sources.validation, held_out, "validation"))
    before = validate(model, unseen)
    train(model, batches, recipe.training.seed)
    held_out_batches = {"before": before, "after": validate(model, unseen)}
    seconds = time.monotonic() - start
    save(model, recipe, sources, args.out, {"seconds": seconds, "held_out": held_out_batches})


def save(
    model: Relational, recipe: Recipe, sources: Sources, out: Path, entry: dict[str, Any]
) -> None:
    """Write the files of a run, as `unitail train` does: model, recipe, and a log of one entry."""
    trained = tuple(dict.fromkeys(recipe.training.visibilities))
    save_weights(recipe.model, model.state_dict(), out / "model", trained)
    (out / RECIPE_FILE).write_text(RunRecord(recipe, sources.data).text())
    recipe = replace(recipe, training=replace(recipe.training, visibilities=trained))
    validator = Validator(sources.validation, recipe, model, Processes(cpu=True))
    entry = {"step": recipe.training.steps, **entry, **validator.measure(model)}
    (out / "log.jsonl").write_text(json.dumps(entry) + "\n")
    print(json.dumps(entry, indent=1))


if __name__ == "__main__":
    main()
