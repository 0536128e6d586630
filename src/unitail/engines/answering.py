"""Work for the workers of an engine: predict the classes of a chunk of rows."""

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from unitail.encoders.encoder import Vectors
from unitail.engines.chunk_items import Reading
from unitail.engines.chunk_results import ChunkFolder
from unitail.engines.encoding import row_reasons, unreadable_rows
from unitail.engines.engine import Chunk, ChunkReport
from unitail.errors import optional
from unitail.estimator.classifier import TailClassifier
from unitail.inputs.encode import Among, encode, unread_items
from unitail.inputs.input_encoder import InputEncoder
from unitail.inputs.items import Items
from unitail.workflows.answer_files import AnswerTable
from unitail.workflows.answers import Answer, Answers
from unitail.workflows.predict import answer_rows


@dataclass(eq=False)
class AnswerChunk:
    """Answers chunks with a fitted classifier, which is sent to every worker.

    It is small: the examples' vectors, and the names of the encoder and the model, which a worker
    loads once. Every row is answered by itself, so the size of the chunks does not matter.
    """

    classifier: TailClassifier
    """A fitted classifier with the encoder of its examples."""
    reading: Reading
    results: ChunkFolder
    coverage: float
    top: int

    @cached_property
    def _encoder(self) -> InputEncoder:
        encoder = self.classifier.kept_examples().encoder
        assert encoder is not None
        return encoder

    @cached_property
    def _for_vectors(self) -> TailClassifier:
        return self.classifier.with_encoder(None)

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in vars(self).items()
            if name not in ("_encoder", "_for_vectors")
        }

    def __call__(self, chunk: Chunk) -> ChunkReport:
        """Write the rows with their answers, and return a report on them."""
        began = time.monotonic()
        with self.reading.items(chunk) as items:
            read = time.monotonic()
            [vectors] = encode(self._encoder, items.items, on_unreadable="skip")
        encoded = time.monotonic()
        answers = self._answers(items, vectors)
        answered = time.monotonic()
        table = self._table(self.reading.kept(chunk), items, answers)
        report = ChunkReport(
            index=chunk.index,
            rows=len(chunk),
            **unreadable_rows(self.reading, items, row_reasons(items, vectors)),
            unread_cells=self.reading.unread_cells(chunk, items),
            counts=dict(Counter(str(answer.state) for answer in answers.answers)),
            seconds={"read": read - began, "encode": encoded - read, "answer": answered - encoded},
        )
        self.results.write(table, report)
        seconds = {**report.seconds, "write": time.monotonic() - answered}
        return replace(report, seconds=seconds)

    def _answers(self, items: Items, vectors: Vectors) -> Answers:
        rows = vectors.features
        answered = (
            answer_rows(self._for_vectors, rows, self.coverage, self.top) if len(rows) else []
        )
        return Answers(
            answers=tuple(
                Answer(place=place, name=items.names[place], **answer)
                for place, answer in zip(vectors.kept.tolist(), answered, strict=True)
            ),
            unreadable=unread_items(Among.FILES, items, vectors),
            modality=items.modality,
            encoder=self._encoder.name,
            examples={},
            coverage=self.coverage,
            joint=False,
        )

    def _table(self, rows: Any, items: Items, answers: Answers) -> Any:  # noqa: ANN401 - of pyarrow
        """Append the columns of answers to the user's, with the same types in every chunk."""
        pyarrow = optional("pyarrow", extra="scale")
        label, columns = self.reading.label_column, rows.column_names
        table = AnswerTable.of(answers, items, label)
        for name in self._new_columns(table, columns):
            cells = [_flat(row.get(name)) for row in table.rows]
            kind = _kind(name, pyarrow)
            rows = rows.append_column(name, pyarrow.array(cells, kind))
        return rows

    def _new_columns(self, table: AnswerTable, columns: list[str]) -> list[str]:
        """Name the columns to append; they are the same even for a chunk without any answer."""
        added = [name for name in table.columns if name not in columns]
        prefix = next(name for name in added if name.endswith("answer")).removesuffix("answer")
        ways = len(self.classifier.classes_)
        ranks = range(2, min(self.top, ways) + 1)
        more = [f"{prefix}{name}_{rank}" for rank in ranks for name in ("answer", "probability")]
        return list(dict.fromkeys([*added, *more]))


def _flat(cell: object) -> object:
    return json.dumps(cell, ensure_ascii=False) if isinstance(cell, list) else cell


def _kind(name: str, pyarrow: Any) -> Any:  # noqa: ANN401 - a type of pyarrow
    last = name.rpartition("unitail_")[2]
    if last == "row":
        return pyarrow.int64()
    numbers: Mapping[str, Any] = {"probability": pyarrow.float64(), "novelty": pyarrow.float64()}
    return numbers.get(last.split("_")[0], pyarrow.string())
