"""A fitted classifier in processes of other people's pipelines: sent small, answering the same."""

import pickle
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import dask
import dask.array
import joblib
import numpy as np
import pandas
import pytest

from helpers.sounds import write_sounds
from unitail import TailClassifier

GENERATOR = np.random.default_rng(0)
Y = np.repeat(["a", "b", "c"], 4)
X = GENERATOR.normal(size=(12, 6)) + 3 * (Y == "b")[:, None] - 3 * (Y == "c")[:, None]
Q = GENERATOR.normal(size=(40, 6)) * 3


@pytest.fixture(scope="module")
def classifier() -> TailClassifier:
    fitted = TailClassifier(device="cpu").fit(X, Y)
    fitted.predict_set(Q[:1])  # what that computes is sent along
    return fitted


def test_neither_model_nor_encoder_is_sent(tmp_path: Path) -> None:
    """A few kilobytes beside the examples' vectors: both are loaded by name where it arrives."""
    files = sorted(write_sounds(tmp_path / "sounds", count=2).rglob("*.wav"))
    labels = [path.parent.name for path in files]
    classifier = TailClassifier(encoder="log-mel", device="cpu", cache=False).fit(files, labels)
    sent = pickle.dumps(classifier)
    assert len(sent) - classifier.kept_examples().vectors.nbytes < 5000
    again: TailClassifier = pickle.loads(sent)
    np.testing.assert_array_equal(again.predict_proba(files), classifier.predict_proba(files))


@pytest.mark.slow
def test_joblib(classifier: TailClassifier) -> None:
    pieces = np.array_split(Q, 4)
    ask = joblib.delayed(classifier.predict_proba)
    answers = joblib.Parallel(n_jobs=2)(ask(piece) for piece in pieces)
    expected = classifier.predict_proba(Q)
    np.testing.assert_allclose(np.concatenate(answers), expected, rtol=0, atol=1e-12)


def test_dask(classifier: TailClassifier) -> None:
    """Blocks of an array, in processes, as Dask-ML's ParallelPostFit asks for them."""
    blocks = dask.array.from_array(Q, chunks=(10, 6))
    asked = blocks.map_blocks(classifier.predict_proba, dtype=float, chunks=(10, 3), meta=Q[:0])
    with ProcessPoolExecutor(2, get_context("forkserver")) as pool, dask.config.set(pool=pool):
        answers = asked.compute(scheduler="processes")
    np.testing.assert_allclose(answers, classifier.predict_proba(Q), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_spark(classifier: TailClassifier, tmp_path: Path) -> None:
    """As docs/scale.md has it: vectors in files of Parquet, answered by `mapInPandas`."""
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    vectors = Q.astype(np.float32)
    frame = pandas.DataFrame({"id": range(len(Q)), "vector": list(vectors)})
    for number in range(2):
        frame[number::2].to_parquet(tmp_path / f"chunk-{number:08}.parquet", index=False)
    local = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = local.config("spark.driver.host", "127.0.0.1").getOrCreate()
    sent = spark.sparkContext.broadcast(classifier)

    def answer(frames: Iterable[Any]) -> Iterator[Any]:
        for each in frames:
            answers = sent.value.predict(np.stack(each["vector"])).astype(str)
            yield each.assign(answer=answers).drop(columns="vector")

    rows = spark.read.parquet(str(tmp_path)).mapInPandas(answer, "id long, answer string")
    answers = {row.id: row.answer for row in rows.collect()}
    spark.stop()
    assert [answers[number] for number in range(len(Q))] == list(classifier.predict(vectors))
