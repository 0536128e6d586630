"""Odd arrays, labels and parameters for the classifier."""

import datetime
import random
from collections.abc import Callable
from typing import Any

import numpy as np


def odd_calls(generator: random.Random) -> Callable[[], object]:
    """Return a fit and some queries with something odd about them."""
    rng = np.random.default_rng(generator.getrandbits(32))
    rows, width = generator.choice([2, 3, 8, 20]), generator.choice([1, 2, 5, 30])
    x: Any = rng.normal(size=(rows, width))
    y: Any = np.array(["a", "b"])[np.arange(rows) % 2]
    x = _odd_x(x, rng, generator) if generator.random() < 0.6 else x
    y = _odd_y(y, rng, generator) if generator.random() < 0.5 else y
    queries: Any = rng.normal(size=(generator.choice([1, 4]), width))
    queries = _odd_x(queries, rng, generator) if generator.random() < 0.4 else queries
    parameters = _odd_parameters(generator) if generator.random() < 0.35 else {}
    weight = _odd_weight(rows, rng, generator) if generator.random() < 0.15 else None
    pool = (
        _odd_x(rng.normal(size=(6, width)), rng, generator) if generator.random() < 0.15 else None
    )
    what = generator.choice(["proba", "proba", "set", "novelty", "add", "remove", "labels"])

    def call() -> None:
        from unitail.estimator.classifier import TailClassifier

        classifier = TailClassifier(**{"random_state": 0, **parameters})
        classifier.fit(x, y, sample_weight=weight, pool=pool)
        answers = classifier.predict_proba(queries)
        if not np.isfinite(answers).all() or not np.allclose(answers.sum(axis=1), 1):
            raise AssertionError(f"probabilities of {answers}")
        _ask_more(classifier, what, x, y, queries)

    return call


def _ask_more(classifier: Any, what: str, x: Any, y: Any, queries: Any) -> None:  # noqa: ANN401
    if what == "set":
        assert classifier.predict_set(queries).any(axis=1).all()
    elif what == "novelty":
        novelty = classifier.novelty(queries)
        assert ((novelty >= 0) & (novelty <= 1)).all(), novelty
    elif what == "add":
        classifier.add(x, y)
        assert np.isfinite(classifier.predict_proba(queries)).all()
    elif what == "labels":
        assert set(np.unique(classifier.predict(queries))) <= set(classifier.classes_)


def _odd_x(x: Any, rng: np.random.Generator, generator: random.Random) -> Any:  # noqa: ANN401
    """Return an odd variant of an array."""
    return generator.choice([*_odd_numbers(x, rng, generator), *_odd_containers(x)])()


def _odd_numbers(
    x: Any,  # noqa: ANN401
    rng: np.random.Generator,
    generator: random.Random,
) -> list[Callable[[], Any]]:
    """Return arrays of odd numbers, dtypes and shapes."""
    size: float = generator.choice([1e-320, 1e-300, 1e-30, 1e30, 1e38, 1e150, 1e300, 1.7e308, 0.0])
    spotted = x.copy()
    spotted[rng.random(x.shape) < 0.3] = generator.choice(
        [np.nan, np.inf, -np.inf, 1e308, -1e308, 0]
    )
    mixed = x * 10.0 ** rng.integers(-300, 300, x.shape[1])
    return [
        lambda: x * size,
        lambda: x * size + 1e300,
        lambda: spotted,
        lambda: mixed,
        lambda: np.zeros_like(x),
        lambda: np.repeat(x[:1], len(x), axis=0),
        lambda: x.astype(np.float16),
        lambda: x.astype(">f8"),
        lambda: x.astype(">f4"),
        lambda: (x * 100).astype(">i4"),
        lambda: x.astype(np.longdouble),
        lambda: x.astype(np.complex128),
        lambda: x.astype(object),
        lambda: x.astype(str),
        lambda: (x * 1e18).astype(np.int64),
        lambda: x > 0,
        lambda: (x * 50).astype(np.uint8),
        lambda: x[:0],
        lambda: x[:, :0],
        lambda: x[0],
        lambda: x[None],
        lambda: np.asfortranarray(x),
        lambda: x[::-1, ::-1],
        lambda: np.broadcast_to(x[:1], x.shape),
        lambda: np.ma.masked_array(x, x > 0),
    ]


def _odd_containers(x: Any) -> list[Callable[[], Any]]:  # noqa: ANN401
    """Return other containers of numbers, or values that are none."""
    import pandas as pd
    import scipy.sparse as sparse

    return [
        x.tolist,
        lambda: [row.tolist()[: i + 1] for i, row in enumerate(x)],
        lambda: [[None] * x.shape[1]] * len(x),
        lambda: sparse.csr_matrix(x),
        lambda: sparse.coo_array(x.astype(np.float32)),
        lambda: pd.DataFrame(x),
        lambda: pd.DataFrame(x, columns=list(range(x.shape[1]))[::-1]),
        lambda: pd.DataFrame(x).astype("Float64").mask(pd.DataFrame(x) > 1),
        lambda: pd.DataFrame(x.astype(str)),
        lambda: None,
        lambda: 3,
        lambda: "abc",
        lambda: {},
        set,
        object,
        lambda: [b"bytes"] * len(x),
        lambda: ["text"] * len(x),
        lambda: [datetime.datetime(2020, 1, 1)] * len(x),
        lambda: np.array([["NaT"] * x.shape[1]] * len(x), dtype="datetime64[s]"),
        lambda: np.zeros(len(x), dtype=[("a", "f8"), ("b", "i4")]),
        lambda: np.full(x.shape, 2**1023, dtype=object),
        lambda: np.full(x.shape, 10**400, dtype=object),
        lambda: iter(x),
        lambda: (row for row in x),
    ]


def _odd_y(y: Any, rng: np.random.Generator, generator: random.Random) -> Any:  # noqa: ANN401
    """Return odd labels."""
    import pandas as pd

    count = len(y)
    first = np.arange(count) % 2
    ways: list[Callable[[], Any]] = [
        lambda: y[:-1],
        lambda: [*y, "a"],
        lambda: first[:, None],
        lambda: np.stack([first, first], axis=1),
        lambda: first.astype(float) + 0.5,
        lambda: np.where(first, np.nan, 1.0),
        lambda: np.where(first, np.inf, 1.0),
        lambda: [None if each else "a" for each in first],
        lambda: [1 if each else "a" for each in first],
        lambda: [b"a" if each else b"b" for each in first],
        lambda: [("a", 1) if each else ("b", 2) for each in first],
        lambda: [{} for _ in first],
        lambda: first.astype(bool),
        lambda: first.astype(">i8"),
        lambda: first.astype(np.complex64),
        lambda: first.astype("datetime64[D]"),
        lambda: (first * (2**63 - 1)).astype(np.uint64),
        lambda: np.array([2**70 if each else 1 for each in first], dtype=object),
        lambda: np.zeros(count),
        lambda: np.arange(count),
        lambda: np.array(["\0a", "a\0"])[first],
        lambda: np.array(["", " "])[first],
        lambda: np.array(["a", "a "])[first],
        lambda: np.array(["\ud800", "b"], dtype=object)[first],
        lambda: np.array(["nan", "inf"])[first],
        lambda: np.array(["x" * 10_000, "y"])[first],
        lambda: pd.Series(first).astype("category"),
        lambda: pd.Series(y).astype("string"),
        lambda: pd.Series(first, index=first),
        lambda: pd.Series(first).astype("Int64").mask(pd.Series(first) == 1),
        lambda: np.ma.masked_array(first, first == 1),
        lambda: None,
        lambda: "ab" * count,
        lambda: {},
        lambda: 5,
        lambda: iter(y),
        lambda: np.array([1e308, -1e308])[first],
        lambda: np.array([0.0, -0.0])[first],
    ]
    return generator.choice(ways)()


def _odd_parameters(generator: random.Random) -> dict[str, Any]:
    values = [
        None, -1, 0, 1, 2, 1.5, "", "x", True, [], {}, (), np.nan, np.inf, "auto", "balanced",
        np.array([0.5, 0.5]), [0.5, 0.5], [1, 1], {"a": 2.0}, {"a": -1}, {"c": 1.0}, b"x", 10**30,
        object(),
    ]  # fmt: skip
    names = [
        "model", "visibility", "class_shares", "n_draws", "device", "chunk_size", "max_support",
        "precision", "scale", "class_prior", "class_weight", "encoder", "cache", "random_state",
    ]  # fmt: skip
    return {
        generator.choice(names): generator.choice(values)
        for _ in range(generator.choice([1, 1, 2]))
    }


def _odd_weight(count: int, rng: np.random.Generator, generator: random.Random) -> Any:  # noqa: ANN401
    choices = [
        np.zeros(count), -np.ones(count), np.full(count, np.nan), np.full(count, np.inf),
        np.full(count, 1e9), rng.random(count), np.ones(count - 1), "x", 3, [None] * count,
        np.full(count, 1e-300), np.r_[1e-300, np.ones(count - 1)],
    ]  # fmt: skip
    return generator.choice(choices)
