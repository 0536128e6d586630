"""Jobs: encode or answer rows with the workers of an engine, with one result file per chunk."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import unitail
from unitail.answer_defaults import CHUNK_ROWS, COVERAGE, TOP
from unitail.banks.bank import FeatureBank
from unitail.encoders.encoder import Encoder
from unitail.engines.answering import AnswerChunk
from unitail.engines.bank import BankFacts, write_bank
from unitail.engines.chunk_results import ChunkFolder, Summary
from unitail.engines.encoding import EncodeChunk
from unitail.engines.engine import Chunk, ChunkReport, Engine, Work
from unitail.engines.rows import JobRows
from unitail.engines.storage import Storage
from unitail.errors import InvalidConfig
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.prediction_sets import scores_key
from unitail.inputs.input_encoder import describe_encoder
from unitail.nn.episode_model import Visibility
from unitail.own_code import is_own
from unitail.progress import OnProgress

FORMAT = 1
NOTHING: Mapping[str, Any] = MappingProxyType({})


def run_job(
    engine: Engine,
    rows: JobRows,
    work: Work,
    results: ChunkFolder,
    about: Mapping[str, Any],
    *,
    chunk_rows: int = CHUNK_ROWS,
    on_progress: OnProgress | None = None,
) -> Summary:
    """Process all rows that have no result yet; repeating the call resumes an interrupted job.

    `about` holds the settings that decide the result, in addition to the rows and how they are
    read. A folder with the result of another job is refused.
    """
    stream, read = rows.stream, rows.reading.identity
    job = {
        "format": FORMAT,
        "rows": stream.identity,
        "rows of a chunk": chunk_rows,
        **read,
        **about,
    }
    reports = results.begin(job)
    if results.is_emptied:
        return results.summary()
    progress = _Progress(reports, stream.total, on_progress)

    def waiting() -> Iterator[Chunk]:
        for chunk in stream.chunks(chunk_rows):
            progress.rows_read += len(chunk)
            if chunk.index not in reports:
                yield chunk

    progress.show()
    for report in engine.map(work, waiting()):
        reports[report.index] = report
        progress.show(report.rows)
    return results.finish(reports)


class _Progress:
    """Counts finished rows; if the total is unknown, the rows read so far stand for it."""

    def __init__(
        self, reports: Mapping[int, ChunkReport], total: int | None, on_progress: OnProgress | None
    ) -> None:
        self._done = sum(report.rows for report in reports.values())
        self._total, self._on_progress, self.rows_read = total, on_progress, 0

    def show(self, more: int = 0) -> None:
        self._done += more
        if self._on_progress is not None:
            total = self.rows_read if self._total is None else self._total
            self._on_progress(self._done, max(total, self._done))


def encode_rows(
    engine: Engine,
    rows: JobRows,
    encoder: Encoder[Any],
    out: Storage,
    *,
    made_by: str | None = None,
    device: str = "auto",
    dtype: str = "float32",
    chunk_rows: int = CHUNK_ROWS,
    on_progress: OnProgress | None = None,
    more: Mapping[str, Any] = NOTHING,
) -> Summary:
    """Encode rows to a folder with one Parquet file per chunk: the rows with their vectors.

    Every worker loads the encoder again, by its name or by `made_by` (FILE.py:NAME). `more` is
    added to the settings that identify the job, see `run_job`.
    """
    results = ChunkFolder(out)
    if made_by is not None and is_own(made_by):
        made_by = str(Path(made_by).absolute())  # workers may run in another folder
    work = EncodeChunk(made_by or encoder.name, device, rows.reading, results, dtype)
    about = {"job": "encode", "encoder": encoder.name, "fingerprint": encoder.fingerprint}
    return run_job(
        engine,
        rows,
        work,
        results,
        {**about, "dtype": dtype, **more},
        chunk_rows=chunk_rows,
        on_progress=on_progress,
    )


def encode_rows_to_bank(
    engine: Engine,
    rows: JobRows,
    encoder: Encoder[Any],
    folder: Path,
    facts: BankFacts,
    *,
    made_by: str | None = None,
    device: str = "auto",
    chunk_rows: int = CHUNK_ROWS,
    on_progress: OnProgress | None = None,
) -> tuple[FeatureBank, Summary]:
    """Encode labelled rows to a bank.

    Until it is complete, the results of chunks are in a folder beside it, which all workers must
    see under the same path. The description of the job stays there, so that the same call later
    opens the bank.
    """
    target = folder.absolute()
    results = ChunkFolder(Storage(target.with_name(f".{target.name}.chunks")))
    if results.is_emptied and not target.exists():  # the bank was complete, and was removed
        results.storage.remove()
    summary = encode_rows(
        engine,
        rows,
        encoder,
        results.storage,
        made_by=made_by,
        device=device,
        chunk_rows=chunk_rows,
        on_progress=on_progress,
        more={f"bank's {name}": fact for name, fact in asdict(facts).items()},
    )
    if results.is_emptied:
        return FeatureBank.open(folder), summary
    label = rows.reading.label_column
    bank = write_bank(results, summary, encoder, folder, facts, label_column=label)
    results.empty()
    return bank, summary


def answer_rows_to_folder(
    engine: Engine,
    rows: JobRows,
    classifier: TailClassifier,
    out: Storage,
    *,
    coverage: float = COVERAGE,
    top: int = TOP,
    chunk_rows: int = CHUNK_ROWS,
    on_progress: OnProgress | None = None,
) -> Summary:
    """Answer rows with a classifier that has an encoder; write one Parquet file per chunk.

    Every row is answered by itself. Prediction sets are calibrated here, once, for all workers.
    """
    if classifier.visibility_ != Visibility.ISOLATED:
        raise InvalidConfig(
            "workers answer every row by itself",
            got=f"a classifier with {classifier.visibility_} answers",
            allowed="isolated answers",
            remedy="Fit the default model, or one that was trained for isolated answers, without"
            " visibility='joint'; unlabelled rows can be its pool.",
        )
    kept, fitted = classifier.kept_examples(), classifier.fitted_
    # Calibrates the sets; the classifier that is sent shares the result.
    classifier.with_encoder(None).predict_set(kept.vectors[:1])
    results = ChunkFolder(out)
    about = {
        "job": "predict",
        "examples": _hashed(kept.vectors.tobytes(), repr(kept.labels.tolist()).encode()),
        "pool": None if kept.pool is None else _hashed(kept.pool.tobytes()),
        "weights, model or parameters": scores_key(fitted.rows, fitted.settings, fitted.pool),
        "encoder": _hashed(json.dumps(describe_encoder(kept.encoder)).encode()),
        "version of unitail": unitail.__version__,
        "coverage": coverage,
        "top": top,
    }
    return run_job(
        engine,
        rows,
        AnswerChunk(classifier, rows.reading, results, coverage, top),
        results,
        about,
        chunk_rows=chunk_rows,
        on_progress=on_progress,
    )


def _hashed(*pieces: bytes) -> str:
    return hashlib.sha256(b"".join(pieces)).hexdigest()
