"""Compare rules for combining the predictions of several parts of a row.

    python bench/mixed_parts.py --banks BANKS --out results/mixed_parts.md

All rows come from training sets, none from a table that is a test. Two encoders of the same items
give parts with nearly the same information; items of two sets, paired by class, give parts that are
independent given the class; a shuffled part is uninformative; columns are synthetic. Accuracy, log
loss and mean probability of the predicted class are averaged over episodes.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from measuring.page import Page
from numpy.typing import NDArray
from torch import Tensor

from unitail.banks.bank import FeatureBank
from unitail.framework.episode import Support
from unitail.framework.statistics import MeanInterval
from unitail.learners.in_context import InContextLearner
from unitail.learners.pretrained import load_default

WAYS, QUERIES = 5, 10
NOUNS, SECTIONS = "minilm/wordnet_nouns", "minilm/debian_sections"
COLUMNS, STRONG = "columns", "strong columns"
MIXES: Mapping[str, tuple[bool, tuple[str, ...], int | None]] = {
    "nouns: minilm, glove50": (True, (NOUNS, "glove50/wordnet_nouns"), None),
    "packages: minilm, glove50": (True, (SECTIONS, "glove50/debian_sections"), None),
    "words: whisper, yamnet": (True, ("whisper_tiny/espeak_words", "yamnet/espeak_words"), None),
    "notes: whisper, yamnet": (
        True,
        ("whisper_tiny/gm_instruments", "yamnet/gm_instruments"),
        None,
    ),
    "picture, noun": (False, ("efflite0/pokemon", NOUNS), None),
    "picture, package, columns": (False, ("efflite0/grocery", SECTIONS, COLUMNS), None),
    "hiragana, package shuffled": (False, ("efflite0/hiragana", SECTIONS), 1),
    "noun shuffled, strong columns": (False, (NOUNS, STRONG), 0),
    "picture shuffled, noun": (False, ("efflite0/pokemon", NOUNS), 0),
}
"""For each mix: whether parts are of the same items, the parts, and which is shuffled."""

Rows = NDArray[np.float64]


class Mixes:
    """Draws episodes whose rows have several parts."""

    def __init__(self, banks: Path) -> None:
        self._banks, self._open = banks, dict[str, tuple[Rows, NDArray[np.int64]]]()

    def _bank(self, name: str) -> tuple[Rows, NDArray[np.int64]]:
        if name not in self._open:
            bank = FeatureBank.open(self._banks / name)
            features = np.asarray(bank.features, dtype=np.float64)
            self._open[name] = features, np.asarray(bank.class_indices)
        return self._open[name]

    def _places(self, name: str, per_class: int, rng: np.random.Generator) -> NDArray[np.int64]:
        labels = self._bank(name)[1]
        names, sizes = np.unique(labels, return_counts=True)
        classes = rng.permutation(names[sizes >= per_class])[:WAYS]
        rows = [rng.permutation(np.flatnonzero(labels == each))[:per_class] for each in classes]
        return np.stack(rows)  # (K, N + M)

    def draw(self, mix: str, shots: int, seed: int) -> list[Rows]:
        """Return the vectors of each part, (K, N + M, d)."""
        same, names, shuffled = MIXES[mix]
        rng, each = np.random.default_rng(seed), shots + QUERIES
        places = self._places(names[0], each, rng) if names[0] != COLUMNS else None
        parts = []
        for name in names:
            if name in (COLUMNS, STRONG):
                centres = rng.normal(size=(WAYS, 1, 8)) * (1.0 if name == STRONG else 0.5)
                parts.append((centres + rng.normal(size=(WAYS, each, 8))) @ rng.normal(size=(8, 8)))
            else:
                parts.append(self._bank(name)[0][places if same else self._places(name, each, rng)])
        if shuffled is not None:
            flat = parts[shuffled].reshape(WAYS * each, -1)
            parts[shuffled] = flat[rng.permutation(len(flat))].reshape(WAYS, each, -1)
        return parts


def equal_shares(parts: list[Rows], shots: int, *, centred: bool) -> Rows:
    """Concatenate parts so that each has the same share in distances."""
    scaled = []
    for part in parts:
        labelled = part[:, :shots].reshape(WAYS * shots, -1)
        centre = labelled.mean(axis=0)
        size = np.sqrt(((labelled - centre) ** 2).sum() / max(len(labelled) - 1, 1))
        scaled.append((part - centre * centred) / size)
    return np.concatenate(scaled, axis=-1)


def answers(learner: InContextLearner, episodes: list[Rows], shots: int) -> Tensor:
    """Predict episodes of rows (K, N + M, d): log-probabilities (B, K M, K)."""
    rows = torch.from_numpy(np.stack(episodes))
    support = Support(
        features=rows[:, :, :shots].flatten(1, 2),
        class_indices=torch.arange(WAYS).repeat_interleave(shots).expand(len(rows), -1),
        ways=WAYS,
    )
    return learner.infer(support, rows[:, :, shots:].flatten(1, 2)).double()


def rules(mixes: Mixes, mix: str, shots: int, episodes: int) -> dict[str, Tensor]:
    """Return the predictions of each rule, (B, m, K)."""
    learner = InContextLearner(load_default().double())
    drawn = [mixes.draw(mix, shots, seed) for seed in range(episodes)]
    predictions = [answers(learner, list(part), shots) for part in zip(*drawn, strict=True)]
    together = torch.stack(predictions).sum(dim=0)
    count = len(predictions)
    shares = {
        f"equal shares{', centred' if centred else ''}": answers(
            learner, [equal_shares(parts, shots, centred=centred) for parts in drawn], shots
        )
        for centred in (True, False)
    }
    return {
        **shares,
        "sum": together.log_softmax(-1),
        "sum / √P": (together / count**0.5).log_softmax(-1),
        "mean": (together / count).log_softmax(-1),
    }


def measures(log_probabilities: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return accuracy, log loss and mean probability of the prediction, (B,) each."""
    truth = torch.arange(WAYS).repeat_interleave(QUERIES).expand(log_probabilities.shape[:2])
    correct = (log_probabilities.argmax(dim=-1) == truth).double().mean(dim=1)
    loss = -log_probabilities.gather(-1, truth[..., None]).squeeze(-1).mean(dim=1)
    return correct, loss, log_probabilities.exp().amax(dim=-1).mean(dim=1)


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--banks", type=Path, required=True)
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 5, 10])
    parser.add_argument("--episodes", type=int, default=16)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    page = Page(
        args.out,
        "Several parts, one answer",
        f"{WAYS} classes, {args.episodes} episodes of each mix; accuracy in % ± half the width of"
        " its 95 % interval over episodes, log loss, and how far confidence exceeds accuracy, in"
        " points.",
        BANKS=args.banks,
    )
    mixes, totals = Mixes(args.banks), dict[tuple[int, str], list[list[float]]]()
    for shots in args.shots:
        page.text(f"## {shots} labels a class")
        page.table(["mix", "rule", "accuracy", "log loss", "overconfidence"])
        for mix in MIXES:
            for rule, predictions in rules(mixes, mix, shots, args.episodes).items():
                correct, loss, sure = measures(predictions)
                accuracy = MeanInterval.of((100 * correct).tolist())
                over = 100 * float((sure - correct).mean())
                page.row(mix, rule, f"{accuracy:.1f}", f"{loss.mean():.3f}", f"{over:+.1f}")
                own = [100 * float(correct.mean()), float(loss.mean()), abs(over)]
                totals.setdefault((shots, rule), []).append(own)
    page.text("## Means over all mixes")
    page.table(["labels a class", "rule", "accuracy", "log loss", "over- or underconfidence"])
    for (shots, rule), each in totals.items():
        means = np.mean(each, axis=0)
        page.row(shots, rule, f"{means[0]:.1f}", f"{means[1]:.3f}", f"{means[2]:.1f}")


if __name__ == "__main__":
    main()
