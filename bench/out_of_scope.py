"""Detect queries that belong to none of 150 intents.

    python bench/out_of_scope.py --data DATA/data_full.json --out results/out_of_scope.md

CLINC150 (CC BY 3.0; data_full.json of github.com/clinc/oos-eval) with its out-of-scope queries and
sentence vectors of MiniLM. The metric is the area under the ROC curve: how often an out-of-scope
query has a higher score than one in scope. Scores: one minus the highest probability, and
`novelty`. Labelled sentences are drawn from the training split, queries from the test split. With
--vectors FILE.npz, vectors are read from the file if it exists, so that nothing has to be encoded;
otherwise the vectors of all draws are written to it.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring.page import Page
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import normalize

from unitail.baselines.linear_probe import LinearProbe, ProbeVariant
from unitail.encoders.encoding import encode_items
from unitail.encoders.registry import make_encoder
from unitail.estimator.classifier import TailClassifier
from unitail.framework.episode import Support
from unitail.framework.statistics import MeanInterval

SHOTS = (1, 5)
UNIT_C = 100.0
"""C of logistic regression on unit rows."""
Array = NDArray[Any]
Method = Callable[[Array, Array, Array], dict[str, Array]]
"""Map labelled vectors, intents and queries to scores by name, and probabilities as ''."""


def ours(labelled: Array, intents: Array, queries: Array) -> dict[str, Array]:
    """Score with the shipped classifier."""
    classifier = TailClassifier(device="cpu", random_state=0).fit(labelled, intents)
    probabilities = classifier.predict_proba(queries)
    return {
        "": probabilities,
        "unitail, novelty": classifier.novelty(queries),
        "unitail, highest probability": -probabilities.max(axis=1),
    }


def unit_regression(labelled: Array, intents: Array, queries: Array) -> dict[str, Array]:
    """Score with logistic regression on unit rows, a common baseline."""
    fitted = LogisticRegression(C=UNIT_C, max_iter=1000).fit(normalize(labelled), intents)
    probabilities = fitted.predict_proba(normalize(queries))
    return {
        "": probabilities,
        f"logistic regression, unit rows, C = {UNIT_C:.0f}": -probabilities.max(axis=1),
    }


def shrunk_regression(labelled: Array, intents: Array, queries: Array) -> dict[str, Array]:
    """Score with logistic regression around a shrunk mean, the strongest simple method."""
    support = Support(
        features=torch.from_numpy(labelled)[None],
        class_indices=torch.from_numpy(intents)[None],
        ways=int(intents.max()) + 1,
    )
    answers = LinearProbe(ProbeVariant.SHRUNK).infer(support, torch.from_numpy(queries)[None])
    probabilities = answers[0].detach().exp().numpy()
    return {"": probabilities, "logistic regression, shrunk mean": -probabilities.max(axis=1)}


class Questions:
    """Queries, with vectors that are computed on demand."""

    def __init__(self, path: Path, encoder: str, vectors: Path | None = None) -> None:
        """Read the file, and the stored vectors if there are any."""
        data = json.loads(path.read_text())
        self.train, self.test = data["train"], data["test"]
        self.outside = [text for text, _ in data["oos_test"]]
        self.intents = sorted({intent for _, intent in self.train})
        self.encoder = encoder
        self.vectors: dict[str, Array] = {}
        if vectors is not None and vectors.exists():
            with np.load(vectors) as stored:
                self.vectors = dict(zip(stored["texts"].tolist(), stored["vectors"], strict=True))

    def encode(self, texts: Sequence[str]) -> Array:
        """Return the vectors of texts."""
        new = sorted(set(texts) - set(self.vectors))
        if new:
            encoded = encode_items(make_encoder(self.encoder), new).features
            self.vectors |= dict(zip(new, encoded, strict=True))
        return np.stack([self.vectors[text] for text in texts])

    def keep(self, path: Path) -> None:
        """Write the vectors to a file."""
        texts = sorted(self.vectors)
        np.savez(path, texts=np.array(texts), vectors=self.encode(texts))

    def draw(self, seed: int, shots: int, queries: int) -> tuple[Array, Array, Array, Array]:
        """Return labelled vectors, their intents, queries and their intents (-1: out of scope)."""
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(self.train))
        labelled: list[tuple[str, int]] = []
        for number, intent in enumerate(self.intents):
            texts = [self.train[row][0] for row in order if self.train[row][1] == intent]
            labelled += [(text, number) for text in texts[:shots]]
        inside = [self.test[row] for row in rng.permutation(len(self.test))[:queries]]
        outside = [self.outside[row] for row in rng.permutation(len(self.outside))[:queries]]
        truth = [self.intents.index(intent) for _, intent in inside] + [-1] * len(outside)
        return (
            self.encode([text for text, _ in labelled]),
            np.array([number for _, number in labelled]),
            self.encode([text for text, _ in inside] + outside),
            np.array(truth),
        )


def measure(
    questions: Questions, shots: int, draws: int, queries: int
) -> dict[str, list[tuple[float, float]]]:
    """Return each score's area under the ROC curve in every draw, and the accuracy in scope."""
    results: dict[str, list[tuple[float, float]]] = {}
    for seed in range(draws):
        labelled, intents, asked, truth = questions.draw(seed, shots, queries)
        for method in (ours, unit_regression, shrunk_regression):
            scores = method(labelled, intents, asked)
            correct = scores.pop("").argmax(axis=1)[truth >= 0] == truth[truth >= 0]
            for name, score in scores.items():
                area = 100 * float(roc_auc_score(truth < 0, score))
                results.setdefault(name, []).append((area, 100 * float(correct.mean())))
        print(f"{shots} labels, draw {seed + 1} of {draws}", flush=True)
    return results


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--vectors", type=Path, metavar="FILE.npz")
    parser.add_argument("--shots", type=int, nargs="+", default=SHOTS)
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--queries", type=int, default=500, help="of either kind in a draw")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    questions = Questions(args.data, args.encoder, args.vectors)
    if args.vectors and not args.vectors.exists():
        for shots in args.shots:
            for seed in range(args.draws):
                questions.draw(seed, shots, args.queries)
        questions.keep(args.vectors)
    page = Page(
        args.out,
        "Out of scope",
        f"CLINC150, {len(questions.intents)} intents, {args.encoder}; {args.draws} draws of"
        f" labelled questions, {args.queries} queries in scope and as many out of scope in each."
        " Area under the ROC curve in %, and accuracy in % of the queries in scope; 95 % intervals"
        " over draws, of differences paired by draw.",
        DATA=args.data.parent,
    )
    page.table([
        "labels a class",
        "score",
        "area",
        "minus the first",
        "accuracy in scope",
        "minus the first",
    ])  # fmt: skip
    for shots in args.shots:
        results = measure(questions, shots, args.draws, args.queries)
        first = np.array(next(iter(results.values())))  # (draws, 2)
        for name, values in results.items():
            own = np.array(values)
            columns = (own[:, 0], (own - first)[:, 0], own[:, 1], (own - first)[:, 1])
            shown = [MeanInterval.of(column.tolist()) for column in columns]
            page.row(shots, name, *(f"{each.mean:.1f} ± {each.half_width:.1f}" for each in shown))


if __name__ == "__main__":
    main()
