"""Compare reductions of features wider than d_data, and numbers of draws.

A model trained by recipes/wide_features.toml on 512-wide features is tested on tasks with 1280-wide
ones, from classes that it was never trained on with any features:

    python bench/wide_features.py --run runs/wide_features --banks BANKS \
        --bank efflite0/tiny_imagenet --out results/wide_features_efflite0.md
    python bench/wide_features.py --run runs/wide_features --banks BANKS \
        --bank sscd_distilled/tiny_imagenet --out results/wide_features_sscd_distilled.md
"""

import argparse
from dataclasses import replace
from pathlib import Path

import torch
from measuring.page import Page

from unitail.banks.bank import FeatureBank
from unitail.banks.splits import split_classes
from unitail.baselines.proto_head import ProtoHead, PrototypeVariant
from unitail.framework.learner import Inference, reseeded
from unitail.framework.statistics import MeanInterval
from unitail.framework.task import accuracy
from unitail.learners.checkpoint import load_model
from unitail.learners.in_context import InContextLearner
from unitail.nn.random_projection import WidthReduction
from unitail.randomness import stream
from unitail.tail.model import Tail
from unitail.tasks.bank_episodes import BankEpisodes
from unitail.tasks.batches import EpisodeRanges

SHOTS, DRAWS, BATCH = (1, 5), (1, 4, 16), 50


def measure(learner: Inference, source: BankEpisodes, shots: int, args: argparse.Namespace) -> str:
    """Measure every learner on the same 5-way episodes."""
    size = min(BATCH, args.episodes)
    ranges = EpisodeRanges.fixed(episodes=size, ways=5, shots=shots, queries=10)
    scores = []
    for number in range(args.episodes // size):
        batch = source.choose_batch(ranges, stream(0, "plan", number))
        episode = batch.sample(stream(0, shots, number, device=args.device))
        assert episode.query.class_indices is not None
        answers = reseeded(learner, number).infer(episode.support, episode.query.features)
        scores.append(accuracy(answers, episode.query.class_indices))
    return f"{MeanInterval.of(100 * torch.cat(scores).cpu().numpy()):.2f}"


def with_reduction(model: Tail, reduction: WidthReduction) -> Tail:
    """Return the same weights with another reduction."""
    changed = Tail(replace(model.config, reduction=reduction)).to(model.device)
    changed.load_state_dict(model.state_dict())
    return changed


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--banks", type=Path, required=True)
    parser.add_argument("--bank", default="efflite0/tiny_imagenet")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    model = load_model(args.run / "model").to(args.device)
    assert isinstance(model, Tail), "the run is TAIL's"
    _, held_out = split_classes(FeatureBank.open(args.banks / args.bank), 0.2, seed=0)
    source = BankEpisodes([held_out])
    learners: dict[str, Inference] = {
        f"{reduction}, {draws} draws": InContextLearner(
            with_reduction(model, reduction), num_draws=draws
        )
        for reduction in WidthReduction
        for draws in DRAWS
    }
    learners["prototypes"] = ProtoHead()
    learners["prototypes, centred"] = ProtoHead(PrototypeVariant.CENTRED)
    page = Page(
        args.out,
        "Features wider than d_data",
        f"5-way accuracy in % on held-out classes of {args.bank}, {args.episodes} episodes, 10"
        f" queries of a class, 95 % intervals. The model has d_data {model.config.projected_dim}"
        " and was trained on features of that width only.",
    )
    page.table(["reduction", "1-shot", "5-shot"])
    for name, learner in learners.items():
        page.row(name, *(measure(learner, source, shots, args) for shots in SHOTS))


if __name__ == "__main__":
    main()
