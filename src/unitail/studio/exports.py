"""What a studio exports: files of answers, class folders, a report, a classifier.

What somebody labelled is given; all else is answered. The formats are those of `unitail predict`
and `unitail fit`.
"""

import shutil
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np

from unitail.answer_defaults import COVERAGE, TOP
from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput
from unitail.estimator.classifier import TailClassifier
from unitail.inputs.encode import Unread
from unitail.inputs.folders import records_of_files
from unitail.inputs.items import Items, LabelledItems, Record
from unitail.studio.catalogue import Catalogue
from unitail.studio.changes import ASIDE, LabelRow
from unitail.studio.fitted import pool_of
from unitail.studio.latest import Labels
from unitail.studio.vectors import Vectors
from unitail.wording import shown
from unitail.workflows.answer_files import write_answers
from unitail.workflows.answers import Answer, Answers
from unitail.workflows.html_report.page import write_html_report
from unitail.workflows.predict import answer_rows, make_classifier
from unitail.workflows.sort_files import (
    SortBy,
    Step,
    check_sorting,
    plan_sorting,
    require_files,
    sort_files,
)

SET_ASIDE = "set aside: none of the classes"
GONE = "the file is gone"
LABELS = "labels"
"""Where items are known from that were labelled and are not there any more."""
NOT_IN_TABLE = "labelled before, and not in the table any more"


class ResultKind(StrEnum):
    """What is written."""

    TABLE = "table"
    """Of any format; the end of the file's name decides."""
    REPORT = "report"
    CLASSIFIER = "classifier"


@dataclass(frozen=True)
class Sorted:
    """What came of sorting files into folders."""

    steps: tuple[Step, ...]
    gone: tuple[Step, ...]
    """Of files that vanished in the last moment; nothing was done with them."""


@dataclass(frozen=True, eq=False)
class Results:
    """All labels and answers as they are now."""

    classifier: TailClassifier
    queries: Items
    """What is answered; the records tell of all items."""
    examples: LabelledItems
    answers: Answers
    source: Path

    @classmethod
    def of(
        cls, catalogue: Catalogue, labels: Labels, vectors: Vectors, *, device: str = "auto"
    ) -> "Results":
        """Fit on all labels, and answer all other items that have a vector.

        What has none, and what was labelled and is not there any more, is told as unreadable.
        """
        names = {row.id: row.name for row in labels.classes()}
        named = labels.labelled()
        known = set(vectors.known().tolist())
        support = [
            (place, names[each])
            for place, each in zip(*named.support, strict=True)
            if place in known
        ]
        _require_two_classes([label for _, label in support])
        places = [place for place, _ in support]
        classifier = make_classifier(encoder=vectors.chosen, device=device)
        pool = pool_of(vectors.known(), named)
        classifier.fit(
            vectors.at(np.array(places)),
            [label for _, label in support],
            pool=vectors.at(pool) if len(pool) else None,
        )
        examples = _chosen(catalogue.items, places).with_labels(label for _, label in support)
        given = {
            **{place: names[each] for place, each in zip(*named.support, strict=True)},
            **dict.fromkeys(named.aside, ""),
        }
        queries = _queries(catalogue.items, given, vectors)
        missing = _missing(catalogue, labels.missing(), names)
        unread = (*_unread(catalogue.items, vectors), *(each for each, _ in missing))
        answers = _answers(classifier, queries, examples, vectors)
        return cls(
            classifier.with_encoder(vectors.chosen),
            queries.and_records(record for _, record in missing if record is not None),
            examples,
            replace(answers, unreadable=unread),
            catalogue.source,
        )

    def write(self, kind: ResultKind, target: Path, *, label_column: str = "label") -> Path:
        """Write a file, or the folder of a classifier; it is whole or not there."""
        match kind:
            case ResultKind.REPORT:
                write_html_report(
                    self.answers,
                    self.queries,
                    target,
                    title=f"Answers for {self.source.name}",
                    examples=self.examples,
                    label_column=label_column,
                )
            case ResultKind.CLASSIFIER:
                self.classifier.save(target)
            case _:
                write_answers(self.answers, self.queries, target, label_column=label_column)
        return target

    def sort_into(self, target: Path, by: SortBy) -> Sorted:
        """Copy or link all files into a folder for each class; nothing is overwritten."""
        require_files(self.queries)
        check_sorting(target, [self.source])
        steps = plan_sorting(self.answers, self.queries, target)
        gone = sort_files(steps, by)
        lost = set(gone)
        return Sorted(tuple(step for step in steps if step not in lost), tuple(gone))


class LatestResults:
    """Results that are made again only where a label or a vector has changed; threads may share it.

    Whoever exports a table, a report and folders waits once for all answers.
    """

    def __init__(
        self, catalogue: Catalogue, labels: Labels, vectors: Vectors, *, device: str
    ) -> None:
        self._catalogue, self._labels, self._vectors = catalogue, labels, vectors
        self._device = device
        self._lock = threading.Lock()
        self._kept: tuple[tuple[int, int], Results] | None = None

    def get(self) -> Results:
        """Return all labels and answers as they are now."""
        with self._lock:
            state = self._labels.revision, self._vectors.changes
            if self._kept is None or self._kept[0] != state:
                self._kept = None  # not two of them at once
                args = self._catalogue, self._labels, self._vectors
                self._kept = state, Results.of(*args, device=self._device)
            return self._kept[1]


def zipped(folder: Path) -> Path:
    """Pack a folder beside it."""
    return Path(shutil.make_archive(str(folder), "zip", folder.parent, folder.name))


@dataclass(frozen=True, eq=False)
class _Queries:
    items: Items
    places: list[int]
    """In the catalogue."""

    def and_records(self, more: Iterable[Record]) -> Items:
        """Return the items, with records of what is not there after all others."""
        return replace(self.items, records=(*self.items.records, *more))


def _require_two_classes(labels: Sequence[str]) -> None:
    if len(set(labels)) < 2:
        raise InvalidInput(
            "there is nothing to answer from yet",
            got=f"labels of {len(set(labels))} classes",
            allowed="labelled items of two classes or more",
            remedy="Label some items of another class.",
        )


def _queries(items: Items, labels: dict[int, str], vectors: Vectors) -> _Queries:
    """Take out what is labelled or cannot be read; records tell of it."""
    places = [place for place in vectors.known().tolist() if place not in labels]
    numbers = {place: number for number, place in enumerate(places)}

    def settled(record: Record) -> Record:
        if record.item is None:
            return replace(record, label="")
        label, reason = labels.get(record.item, ""), ""
        if record.item in labels:
            reason = vectors.failures.get(record.item, "" if label else SET_ASIDE)
        elif record.item not in numbers:
            reason = vectors.failures.get(record.item, "not encoded yet")
        return replace(record, item=numbers.get(record.item), label=label, reason=reason)

    there = {place: each for place, each in labels.items() if vectors.failures.get(place) != GONE}
    given = (
        ()
        if items.modality is Modality.TABLE
        else tuple((items.items[place], label) for place, label in sorted(there.items()) if label)
    )
    records = tuple(map(settled, items.records))
    return _Queries(replace(_chosen(items, places), records=records, given=given), places)


def _unread(items: Items, vectors: Vectors) -> list[Unread]:
    """Name the items that have no vector, for a reason."""
    failures = sorted(vectors.failures.items())
    return [Unread("files", items.names[place], reason) for place, reason in failures]


def _missing(
    catalogue: Catalogue, rows: Sequence[LabelRow], names: Mapping[int, str]
) -> list[tuple[Unread, Record | None]]:
    """Tell of items that were labelled and are not there any more; a file has a record, too."""
    told: list[tuple[Unread, Record | None]] = []
    for row in rows:
        file = catalogue.file_of(row.item)
        if file is None:
            told.append((Unread(LABELS, row.item, NOT_IN_TABLE), None))
            continue
        [record] = records_of_files([file], [names.get(row.class_id or ASIDE, "")])
        told.append(
            (Unread(LABELS, shown(row.item), GONE), replace(record, item=None, reason=GONE))
        )
    return told


def _chosen(items: Items, places: Sequence[int]) -> Items:
    is_table = items.modality is Modality.TABLE
    rows = (
        items.items.iloc[list(places)]  # type: ignore[attr-defined]
        if is_table
        else tuple(items.items[place] for place in places)
    )
    names = tuple(items.names[place] for place in places)
    return replace(items, items=rows, names=names, records=(), given=())


def _answers(
    classifier: TailClassifier, queries: _Queries, examples: LabelledItems, vectors: Vectors
) -> Answers:
    rows = vectors.at(np.array(queries.places, dtype=np.int64)) if queries.places else None
    told = [] if rows is None else answer_rows(classifier, rows, COVERAGE, TOP)
    encoder = vectors.chosen
    return Answers(
        answers=tuple(
            Answer(place=number, name=queries.items.names[number], **answer)
            for number, answer in enumerate(told)
        ),
        unreadable=(),
        modality=queries.items.modality,
        encoder=encoder.name,
        examples=dict(sorted(Counter(examples.labels).items())),
        coverage=COVERAGE,
        joint=False,
        notes=tuple(encoder.notes),
    )
