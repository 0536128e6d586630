"""Answers about tables that a job writes: those of a single call, and of no other classifier."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unitail
from unitail import TailClassifier
from unitail.encoders.tables import TableEncoder
from unitail.engines.chunk_results import ChunkFolder, Summary
from unitail.engines.job import answer_rows_to_folder
from unitail.engines.local import LocalEngine
from unitail.engines.rows import open_rows
from unitail.engines.storage import Storage
from unitail.errors import CannotWrite, InvalidConfig
from unitail.inputs.read import read_labelled, read_unlabelled
from unitail.relational.config import PRESETS
from unitail.relational.model import Relational
from unitail.workflows.answer_files import AnswerTable
from unitail.workflows.fit import ClassifierOptions, fit_files
from unitail.workflows.predict import PredictOptions, predict_files


@pytest.fixture
def tables(tmp_path: Path) -> Sequence[Path]:
    """Write examples of two classes, and rows to answer, some of whose cells are missing."""
    generator, paths = np.random.default_rng(0), []
    for name, number in (("support", 12), ("queries", 23)):
        lines = ["size,colour,label"]
        for place in range(number):
            size = "" if place % 7 == 6 else f"{generator.normal(4 * (place % 2)):.4f}"
            lines.append(
                f"{size},{'red' if generator.random() < 0.5 else 'blue'},{'ab'[place % 2]}"
            )
        paths.append(tmp_path / f"{name}.csv")
        paths[-1].write_text("\n".join(lines))
    return paths


def test_answers_are_those_of_a_single_call(tables: Sequence[Path], tmp_path: Path) -> None:
    examples = read_labelled(tables[0])
    queries = read_unlabelled([tables[1]], like=examples)
    together = predict_files(
        examples, queries, ClassifierOptions(device="cpu"), PredictOptions(top=2)
    )
    expected = AnswerTable.of(together, queries)
    rows = open_rows([str(tables[1])], like=examples)
    classifier = fit_files(examples, ClassifierOptions(device="cpu")).classifier
    out = Storage(tmp_path / "out")
    summary = answer_rows_to_folder(LocalEngine(), rows, classifier, out, top=2, chunk_rows=4)
    assert (summary.rows, summary.chunks, summary.unreadable) == (23, 6, 0)
    chunks = (ChunkFolder(out).read(index) for index in range(summary.chunks))
    written = [row for chunk in chunks for row in chunk.to_pylist()]
    assert list(written[0]) == list(expected.columns)
    for row, other in zip(written, expected.rows, strict=True):
        for name in ("probability", "probability_2", "novelty"):
            assert row[name] == pytest.approx(other[name], abs=1e-6)
        for name in ("size", "colour", "label", "answer", "state", "row", "answer_2"):
            assert row[name] == other[name]


def test_answers_of_another_classifier_are_not_mixed_in(
    tables: Sequence[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same examples and parameters may still be another classifier."""
    examples = read_labelled(tables[0])
    rows, out = open_rows([str(tables[1])], like=examples), Storage(tmp_path / "out")
    kept = fit_files(examples, ClassifierOptions(device="cpu")).classifier.kept_examples()
    assert isinstance(kept.encoder, TableEncoder)
    columns = json.dumps(kept.encoder.to_dict())

    def answer(seed: int = 1, heavy: int = 1, category: str = "red") -> Summary:
        model = Relational(PRESETS["tiny"], seed=seed)
        weights = np.where(np.arange(12) == 3, heavy, 1)
        classifier = TailClassifier(model, device="cpu", random_state=0)
        classifier.fit(kept.vectors, kept.labels, sample_weight=weights)
        encoder = TableEncoder.from_dict(json.loads(columns.replace("red", category)))
        return answer_rows_to_folder(LocalEngine(), rows, classifier.with_encoder(encoder), out)

    assert answer().rows == answer().rows == 23
    other: list[tuple[dict[str, Any], str]] = [
        ({"seed": 2}, "weights, model or parameters"),
        ({"heavy": 3}, "weights, model or parameters"),
        ({"category": "green"}, "encoder"),
    ]
    for changes, named in other:
        with pytest.raises(CannotWrite, match=f"of another job: got another {named};"):
            answer(**changes)
    monkeypatch.setattr(unitail, "__version__", "99")
    with pytest.raises(CannotWrite, match="of another job: got another version of unitail;"):
        answer()


def test_answers_that_depend_on_each_other_are_refused(
    tables: Sequence[Path], tmp_path: Path
) -> None:
    examples = read_labelled(tables[0])
    kept = fit_files(examples, ClassifierOptions(device="cpu")).classifier.kept_examples()
    classifier = TailClassifier(visibility="joint", device="cpu").fit(kept.vectors, kept.labels)
    rows = open_rows([str(tables[1])], like=examples)
    with pytest.raises(InvalidConfig, match=r"by itself: got .* joint.*Fit the default model"):
        answer_rows_to_folder(LocalEngine(), rows, classifier, Storage(tmp_path / "o"))
