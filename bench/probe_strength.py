"""Choose the strength C of the tuned linear probe on training classes.

Every C is tested on the same 5-way episodes of the training data sets; of tiny_imagenet only the
training classes are used, since the others are for testing.

    python bench/probe_strength.py --banks BANKS --out results/probe_strength.md
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from measuring.page import Page
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from unitail.banks.bank import FeatureBank
from unitail.banks.splits import split_classes
from unitail.baselines.linear_probe import LinearProbe, ProbeVariant
from unitail.baselines.proto_head import ProtoHead, PrototypeVariant
from unitail.framework.episode import Episode
from unitail.framework.learner import Inference
from unitail.framework.statistics import MeanInterval
from unitail.framework.task import accuracy
from unitail.randomness import stream
from unitail.tasks.bank_episodes import BankEpisodes
from unitail.tasks.batches import EpisodeRanges
from unitail.training.config import DEFAULT_SEED
from unitail.training.recipe import HELD_OUT

ENCODERS = ("efflite0", "sscd_distilled")
SPLIT = "tiny_imagenet"
OTHERS = (
    "omniglot_small", "pokemon", "fruits", "grocery", "hiragana", "gtsrb", "plantvillage",
    "clothing17", "cifar10", "monkeys10", "sign_digits", "eth80", "neu_steel", "intel_scenes6",
    "flowers5", "trashnet5",
)  # fmt: skip
STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, 1e5)
SHOTS, QUERIES, BATCH = (1, 5), 10, 50
TIMED = ("5x50", "100x16")
"""Timed batches: ways and episodes."""

Cells = list[str]
"""A row of a table."""

Measured = dict[str, NDArray[np.float64]]
"""Accuracy and NLL of every episode, by learner: (2, banks, shots, episodes)."""


def open_source(banks: Path, name: str) -> BankEpisodes:
    """Open a bank; for a split one, only the training classes."""
    bank = FeatureBank.open(banks / name)
    if bank.name != SPLIT:
        return BankEpisodes([bank])
    trained, _ = split_classes(bank, HELD_OUT, DEFAULT_SEED)
    return BankEpisodes([trained])


def draw(source: BankEpisodes, ways: int, shots: int, episodes: int, number: int) -> Episode:
    """Draw a batch, seeded by its number."""
    ranges = EpisodeRanges.fixed(episodes=episodes, ways=ways, shots=shots, queries=QUERIES)
    batch = source.choose_batch(ranges, stream(0, "plan", number))
    return batch.sample(stream(0, shots, number))


def batches(source: BankEpisodes, shots: int, episodes: int) -> Iterator[Episode]:
    """Draw 5-way episodes."""
    batch = min(BATCH, episodes)
    return (draw(source, 5, shots, batch, number) for number in range(episodes // batch))


def score(learner: Inference, episode: Episode) -> NDArray[np.float64]:
    """Return accuracy and NLL of each episode, (2, B)."""
    classes = episode.query.class_indices
    assert classes is not None
    answers = learner.infer(episode.support, episode.query.features)
    nll = -answers.gather(-1, classes.unsqueeze(-1)).mean(dim=(1, 2))
    return torch.stack([accuracy(answers, classes), nll]).double().numpy()


def measure(learners: dict[str, Inference], names: list[str], args: argparse.Namespace) -> Measured:
    """Measure all learners on the same episodes of every bank."""
    scores: dict[str, list[list[NDArray[np.float64]]]] = {name: [] for name in learners}
    for bank in names:
        source = open_source(args.banks, bank)
        drawn = [list(batches(source, shots, args.episodes)) for shots in SHOTS]
        for name, learner in learners.items():
            scores[name].append([
                np.concatenate([score(learner, episode) for episode in own], axis=1)
                for own in drawn
            ])  # fmt: skip
        print(bank, flush=True)
    return {name: np.array(parts).transpose(2, 0, 1, 3) for name, parts in scores.items()}


def cells(name: str, own: NDArray[np.float64], best: NDArray[np.float64]) -> Cells:
    """Return a row of the first table: means over all banks, and the paired difference."""
    percent = [f"{MeanInterval.of(100 * own[0, :, place]):.2f}" for place in range(len(SHOTS))]
    nll = [f"{MeanInterval.of(own[1, :, place]):.3f}" for place in range(len(SHOTS))]
    gap = "0" if own is best else f"{MeanInterval.of(100 * (own - best)[0]):.2f}"
    return [name, *percent, gap, *nll, f"{own[1].mean():.3f}"]


def bank_rows(scores: Measured, tuned: list[str], names: list[str], chosen: str) -> list[Cells]:
    """Yield what the fixed C costs compared with the best C of each bank."""
    lines = []
    for place, bank in enumerate(names):
        line = [bank]
        for column, _ in enumerate(SHOTS):
            means = {name: 100 * scores[name][0, place, column].mean() for name in tuned}
            top = max(means, key=lambda name: means[name])
            line += [f"{means[chosen]:.2f}", f"{means[top]:.2f} ({top})"]
        lines.append(line)
    return lines


def choose(scores: Measured, tuned: list[str]) -> tuple[str, str]:
    """Return the C with the best mean accuracy and, among those within noise, the best NLL."""
    best = max(tuned, key=lambda name: scores[name][0].mean())
    gaps = {
        name: MeanInterval.of((scores[name] - scores[best])[0]) for name in tuned if name != best
    }
    near = [best, *(name for name, gap in gaps.items() if gap.high >= 0)]
    return best, min(near, key=lambda name: scores[name][1].mean())


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of the faster of two runs."""
    times = []
    for _ in range(2):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def scikit_learn(episode: Episode, strength: float) -> None:
    """Fit scikit-learn's regression episode by episode, with its default tolerance."""
    mean = episode.support.features.mean(dim=1, keepdim=True)
    rows = F.normalize(episode.support.features - mean, dim=-1).numpy()
    queries = F.normalize(episode.query.features - mean, dim=-1).numpy()
    for support_of_episode, classes, queries_of_episode in zip(
        rows, episode.support.class_indices, queries, strict=True
    ):
        peer = LogisticRegression(C=strength, max_iter=1000).fit(
            support_of_episode, classes.numpy()
        )
        peer.predict_proba(queries_of_episode)


def time_rows(source: BankEpisodes, sizes: Sequence[str], strength: float) -> list[Cells]:
    """Time one batch of each size."""
    lines = []
    probe = LinearProbe(ProbeVariant.TUNED, strength=strength)
    for ways, episodes in (map(int, size.split("x")) for size in sizes):
        episode = draw(source, ways, 5, episodes, 0)
        ours = seconds(lambda e=episode: probe.infer(e.support, e.query.features))  # type: ignore[misc]
        with threadpool_limits(1):
            theirs = seconds(lambda e=episode: scikit_learn(e, strength))  # type: ignore[misc]
        size = f"{episodes} episodes, {ways}-way 5-shot"
        lines.append([size, f"{ours:.2f} s", f"{theirs:.2f} s", f"{theirs / ours:.1f}"])
    return lines


def report(scores: Measured, tuned: list[str], banks: list[str], args: argparse.Namespace) -> None:
    """Write the tables."""
    best, chosen = choose(scores, tuned)
    page = Page(
        args.out,
        "The strength C of the tuned linear probe",
        f"5-way, {len(banks)} banks of training data ({SPLIT}: the classes trained on),"
        f" {args.episodes} episodes of each bank, {QUERIES} queries of a class, the same for every"
        " line; 95 % intervals.",
    )
    page.text(
        f"The best mean accuracy is at C = {best}. Of the C whose paired difference from it is"
        f" within noise, C = {chosen} has the best NLL: it is the default."
    )
    header = ["C", "1-shot accuracy, %", "5-shot accuracy, %"]
    header += ["difference from the best, both shots", "1-shot NLL", "5-shot NLL", "mean NLL"]
    page.table(header, [cells(name, own, scores[best]) for name, own in scores.items()])
    page.text(
        "What one C for all tasks costs: accuracy in % at the default and at the best C of each"
        " bank, which is chosen on the same episodes and so looks better than it is."
    )
    page.table(
        ["bank", "1-shot", "best", "5-shot", "best"], bank_rows(scores, tuned, banks, chosen)
    )
    page.text(
        "Seconds of one CPU core for one batch, fit and answers, the better of two runs, at the"
        f" default C ({banks[0]}, float32). scikit-learn runs episode"
        " by episode with its usual tolerance of 1e-4; ours stops near rounding."
    )
    large = open_source(args.banks, banks[0])
    header = ["batch", "ours", "scikit-learn", "ratio"]
    page.table(header, time_rows(large, args.timed, float(chosen)))


def main() -> None:
    """Measure and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--banks", type=Path, required=True)
    names = [f"{encoder}/{bank}" for encoder in ENCODERS for bank in (SPLIT, *OTHERS)]
    parser.add_argument("--only", nargs="+", default=names, choices=names, metavar="BANK")
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--timed", nargs="+", default=TIMED, help="batches, WAYSxEPISODES")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)  # the matrices are small
    tuned: dict[str, Inference] = {
        f"{strength:g}": LinearProbe(ProbeVariant.TUNED, strength=strength)
        for strength in STRENGTHS
    }
    others: dict[str, Inference] = {
        "the paper's probe": LinearProbe(),
        "prototypes": ProtoHead(),
        "prototypes, centred": ProtoHead(PrototypeVariant.CENTRED),
    }
    scores = measure({**tuned, **others}, args.only, args)
    report(scores, list(tuned), args.only, args)


if __name__ == "__main__":
    main()
