"""Compare TabPFN v1 with TailClassifier and logistic regression on the same rows.

    python3 -m venv TABPFN
    TABPFN/bin/pip install -c constraints.txt -e '.[encoders]' 'hatchling<1.19'
    TABPFN/bin/pip install --no-deps tabpfn==0.1.11
    TABPFN/bin/pip download --no-deps --no-binary :all: --no-build-isolation tabpfn==0.1 -d WEIGHTS
    TABPFN/bin/python bench/tabpfn_v1.py --weights WEIGHTS/tabpfn-0.1.tar.gz --banks BANKS \
        --out results/tabpfn_v1.md

A separate environment: the weights are only in the archive of version 0.1, and the code of 0.1.11
needs patches to run with current torch and scikit-learn, and unpickles what it loads. It takes at
most 10 classes and 100 columns, so of the banks only those of glove100 can be used.
"""

import argparse
import functools
import importlib
import tarfile
import time
import typing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import torch
from measuring.page import Page
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unitail.banks.bank import FeatureBank
from unitail.estimator.classifier import TailClassifier
from unitail.framework.statistics import MeanInterval

TABLES = {
    "iris": load_iris,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
    "digits": load_digits,
}
BANKS = ("glove100/agnews", "glove100/banking77")
SHOTS = (1, 5, 20)
MAX_CLASSES, MAX_QUERIES = 5, 10
"""Largest number of classes per episode, and queries per class."""
Array = NDArray[Any]


def tabpfn(weights: Path) -> Callable[[], Any]:
    """Patch the old code to run, install its weights, and return a classifier factory."""
    for name in ("Any", "Callable", "Optional", "Union"):
        setattr(torch.nn.modules.transformer, name, getattr(typing, name))
    load = torch.load
    torch.load = lambda *args, **options: load(*args, **(options | {"weights_only": False}))
    interface = importlib.import_module("tabpfn.scripts.transformer_prediction_interface")
    for name in ("check_X_y", "check_array"):
        setattr(interface, name, _renamed(getattr(interface, name)))
    with tarfile.open(weights) as archive:
        member = next(each for each in archive.getmembers() if each.name.endswith(".cpkt"))
        content = archive.extractfile(member)
        assert content is not None
        place = Path(str(interface.__file__)).parents[1] / "models_diff" / Path(member.name).name
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(content.read())
    return functools.partial(interface.TabPFNClassifier, device="cpu")


def _renamed(check: Callable[..., Any]) -> Callable[..., Any]:
    """Let a check accept the option name used before scikit-learn 1.6."""

    def old(*args: Any, force_all_finite: Any = True, **options: Any) -> Any:  # noqa: ANN401
        return check(*args, ensure_all_finite=force_all_finite, **options)

    return old


def learners(peer: Callable[[], Any], *, tables: bool) -> dict[str, Callable[[], Any]]:
    """Return fresh classifiers by name; tables come as frames, for the encoder of tables."""
    ours = functools.partial(TailClassifier, encoder="auto" if tables else None, device="cpu")
    return {
        "unitail": ours,
        "unitail, joint": functools.partial(ours, visibility="joint"),
        "TabPFN v1": peer,
        "LogisticRegression": lambda: make_pipeline(
            StandardScaler(), LogisticRegression(max_iter=1000)
        ),
    }


def episodes(
    labels: Array, shots: int, count: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Draw labelled rows and queries."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        classes = rng.permutation(np.unique(labels))[:MAX_CLASSES]
        rows = [rng.permutation(np.flatnonzero(labels == each)) for each in classes]
        queries = [each[shots : shots + MAX_QUERIES] for each in rows]
        yield np.concatenate([each[:shots] for each in rows]), np.concatenate(queries)


def measure(
    makers: dict[str, Callable[[], Any]],
    features: Any,  # noqa: ANN401 - a frame or an array
    labels: Array,
    shots: int,
    count: int,
) -> dict[str, tuple[MeanInterval, float]]:
    """Return accuracy in % and milliseconds of an episode for each learner."""
    results: dict[str, tuple[MeanInterval, float]] = {}
    take = (features.iloc if isinstance(features, pandas.DataFrame) else features).__getitem__
    for name, make in makers.items():
        scores, times = [], []
        for labelled, queries in episodes(labels, shots, count):
            start = time.perf_counter()
            answers = make().fit(take(labelled), labels[labelled]).predict(take(queries))
            times.append(1e3 * (time.perf_counter() - start))
            scores.append(100 * np.mean(answers == labels[queries]))
        results[name] = MeanInterval.of(scores), float(np.median(times))
    return results


def tasks(tables: Sequence[str], banks: Path) -> Iterator[tuple[str, Any, Array]]:
    """Yield names, features and labels."""
    for name in tables:
        features, labels = TABLES[name](return_X_y=True, as_frame=True)
        yield name, features, labels.to_numpy()
    for name in BANKS:
        bank = FeatureBank.open(banks / name)
        yield name, np.asarray(bank.features, dtype=np.float32), np.asarray(bank.class_indices)


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--banks", type=Path, required=True)
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=TABLES)
    parser.add_argument("--shots", type=int, nargs="+", default=SHOTS)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    peer = tabpfn(args.weights)
    page = Page(
        args.out,
        "Beside TabPFN v1",
        "Accuracy in %, mean ± half width of the 95 % interval of"
        f" {args.episodes} episodes, the same for all; up to {MAX_QUERIES} queries of a class; in"
        " brackets milliseconds for a fit and these answers, median, on a CPU. TabPFN with its own"
        " preparation and 3 ensemble members, its default; tables for unitail through the encoder"
        " of tables, for logistic regression standardised.",
        **{"WEIGHTS/tabpfn-0.1.tar.gz": args.weights, "BANKS": args.banks},
    )
    page.table(["task", "shots", *learners(peer, tables=True)])
    for name, features, labels in tasks(args.tables, args.banks):
        makers = learners(peer, tables=isinstance(features, pandas.DataFrame))
        ways = min(MAX_CLASSES, len(np.unique(labels)))
        for shots in args.shots:
            results = measure(makers, features, labels, shots, args.episodes)
            cells = [f"{accuracy:.1f} ({ms:.0f})" for accuracy, ms in results.values()]
            page.row(f"{name}, {ways} classes", shots, *cells)


if __name__ == "__main__":
    main()
