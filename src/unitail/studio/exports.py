"""What a studio exports: answer files, class folders, a report, a classifier.

Labelled items keep their labels; all others are answered. The formats are those of
`unitail predict` and `unitail fit`.
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
from unitail.inputs.encode import Among, Unread
from unitail.inputs.folders import records_of_files
from unitail.inputs.items import Items, LabelledItems, Record
from unitail.studio.catalogue import Catalogue
from unitail.studio.fitted import choose_pool
from unitail.studio.state import Labels
from unitail.studio.stored_rows import ASIDE, LabelRow, Origin
from unitail.studio.vectors import ItemVectors
from unitail.wording import shown
from unitail.workflows.answer_files import write_answers
from unitail.workflows.answers import Answer, Answers
from unitail.workflows.fit import ClassifierOptions
from unitail.workflows.html_report.page import write_html_report
from unitail.workflows.predict import answer_rows
from unitail.workflows.sort_files import (
    SortBy,
    Step,
    check_sorting,
    plan_sorting,
    remove_outdated,
    require_files,
    sort_files,
)

SET_ASIDE = "set aside: none of the classes"
GONE = "the file is gone"
NOT_IN_TABLE = "labelled before, and no longer in the table"


class ResultKind(StrEnum):
    """What to export."""

    TABLE = "table"
    """A table; the suffix of the file name decides its format."""
    REPORT = "report"
    CLASSIFIER = "classifier"


@dataclass(frozen=True)
class SortResult:
    """The steps of sorting files into folders."""

    steps: tuple[Step, ...]
    """Steps that were carried out."""
    gone: tuple[Step, ...]
    """Steps that were skipped because their files had vanished."""
    removed: tuple[Path, ...]
    """Copies and links that an earlier export had made in other folders."""


@dataclass(frozen=True, eq=False)
class Results:
    """All labels and answers at one moment."""

    classifier: TailClassifier
    queries: Items
    """The items that are answered, with records of all items."""
    examples: LabelledItems
    answers: Answers
    source: Path
    label_column: str
    """Name of the column of labels in tables and reports."""

    @classmethod
    def of(
        cls, catalogue: Catalogue, labels: Labels, vectors: ItemVectors, *, device: str = "auto"
    ) -> "Results":
        """Fit on all labels, and answer all other items that have a vector.

        Items without a vector, and labelled items that no longer exist, are listed as unreadable.
        """
        names = {row.id: row.name for row in labels.classes()}
        named = labels.labelled()
        encoded = set(vectors.encoded_places().tolist())
        labels_now = [
            (place, names[class_id], origin)
            for place, class_id, origin in zip(*named.support, named.origins, strict=True)
            if place in encoded
        ]
        support = [(place, label) for place, label, _ in labels_now]
        # Answers that were confirmed many at once are easier than those that remain open.
        is_own = np.array([origin != Origin.CONFIRMED for _, _, origin in labels_now], dtype=bool)
        _require_two_classes([label for _, label in support])
        places = [place for place, _ in support]
        classifier = ClassifierOptions(device=device).classifier(vectors.chosen_encoder)
        pool = choose_pool(vectors.encoded_places(), named)
        classifier.fit(
            vectors.at(np.array(places)),
            [label for _, label in support],
            pool=vectors.at(pool) if len(pool) else None,
        )
        classifier.calibrate_on(is_own)
        examples = _subset(catalogue.items, places).with_labels(label for _, label in support)
        label_of = {
            **{place: names[class_id] for place, class_id in zip(*named.support, strict=True)},
            **dict.fromkeys(named.aside, ""),
        }
        queries = _queries(catalogue.items, label_of, vectors, catalogue.label_column)
        missing = _missing_items(catalogue, labels.missing(), names)
        unreadable = (*_unreadable(catalogue.items, vectors), *(each for each, _ in missing))
        answers = _answers(classifier, queries, examples, vectors)
        return cls(
            classifier.with_encoder(vectors.chosen_encoder),
            queries.with_more_records(record for _, record in missing if record is not None),
            examples,
            replace(answers, unreadable=unreadable),
            catalogue.source,
            catalogue.label_column,
        )

    def write(self, kind: ResultKind, target: Path, *, has_links: bool = True) -> Path:
        """Write a file, or the folder of a classifier, atomically; return its path.

        A report has links from its place to the files, unless it will be somewhere else.
        """
        match kind:
            case ResultKind.REPORT:
                write_html_report(
                    self.answers,
                    self.queries,
                    target,
                    title=f"Answers for {self.source.name}",
                    examples=self.examples,
                    label_column=self.label_column,
                    has_links=has_links,
                )
            case ResultKind.CLASSIFIER:
                self.classifier.save(target)
            case _:
                write_answers(self.answers, self.queries, target, label_column=self.label_column)
        return target

    def sort_into(self, target: Path, by: SortBy) -> SortResult:
        """Copy or link all files into a folder for each class; nothing is overwritten."""
        require_files(self.queries)
        check_sorting(target, [self.source])
        steps = plan_sorting(self.answers, self.queries, target)
        gone = sort_files(steps, by)
        skipped = set(gone)
        done = tuple(step for step in steps if step not in skipped)
        removed = () if by is SortBy.MOVE else tuple(remove_outdated(done, target))
        return SortResult(done, tuple(gone), removed)


class LatestResults:
    """Caches results until a label or a vector changes; threads may share it.

    A user who exports a table, a report and folders waits for the answers only once.
    """

    def __init__(
        self, catalogue: Catalogue, labels: Labels, vectors: ItemVectors, *, device: str
    ) -> None:
        self._catalogue, self._labels, self._vectors = catalogue, labels, vectors
        self._device = device
        self._lock = threading.Lock()
        self._latest: tuple[tuple[int, int], Results] | None = None

    def get(self) -> Results:
        """Return all labels and answers as they are now."""
        with self._lock:
            state = self._labels.revision, self._vectors.changes
            if self._latest is None or self._latest[0] != state:
                self._latest = None  # frees the old results before the new ones are computed
                args = self._catalogue, self._labels, self._vectors
                self._latest = state, Results.of(*args, device=self._device)
            return self._latest[1]


def zip_folder(folder: Path) -> Path:
    """Write a zip archive of a folder beside it, and return its path."""
    return Path(shutil.make_archive(str(folder), "zip", folder.parent, folder.name))


@dataclass(frozen=True, eq=False)
class _Queries:
    items: Items
    places: list[int]
    """Their places in the catalogue."""

    def with_more_records(self, records: Iterable[Record]) -> Items:
        """Return the items with more records after their own."""
        return replace(self.items, records=(*self.items.records, *records))


def _require_two_classes(labels: Sequence[str]) -> None:
    if len(set(labels)) < 2:
        raise InvalidInput(
            "there are too few labels to answer from",
            got=f"labels of {len(set(labels))} classes",
            allowed="labelled items of two classes or more",
            remedy="Label some items of another class.",
        )


def _queries(
    items: Items, labels: dict[int, str], vectors: ItemVectors, label_column: str
) -> _Queries:
    """Return the encoded items without a label; records keep the labels and failures of others."""
    places = [place for place in vectors.encoded_places().tolist() if place not in labels]
    numbers = {place: number for number, place in enumerate(places)}

    def updated(record: Record) -> Record:
        if record.item is None:
            return replace(record, label="")
        label, reason = labels.get(record.item, ""), ""
        if record.item in labels:
            reason = vectors.failures.get(record.item, "" if label else SET_ASIDE)
        elif record.item not in numbers:
            reason = vectors.failures.get(record.item, "not encoded yet")
        cells = record.cells
        if not label and label_column in cells:
            cells = {**cells, label_column: None}  # a label that was removed, or given to none
        number = numbers.get(record.item)
        return replace(record, cells=cells, item=number, label=label, reason=reason)

    existing = {
        place: label for place, label in labels.items() if vectors.failures.get(place) != GONE
    }
    given = (
        ()
        if items.modality is Modality.TABLE
        else tuple(
            (items.items[place], label) for place, label in sorted(existing.items()) if label
        )
    )
    records = tuple(map(updated, items.records))
    return _Queries(replace(_subset(items, places), records=records, given=given), places)


def _unreadable(items: Items, vectors: ItemVectors) -> list[Unread]:
    """Return the items that could not be encoded, with the reasons."""
    failures = sorted(vectors.failures.items())
    return [Unread(Among.FILES, items.names[place], reason) for place, reason in failures]


def _missing_items(
    catalogue: Catalogue, rows: Sequence[LabelRow], names: Mapping[int, str]
) -> list[tuple[Unread, Record | None]]:
    """Return the labelled items that no longer exist; those that were files have records, too."""
    missing: list[tuple[Unread, Record | None]] = []
    for row in rows:
        file = catalogue.file_of(row.item)
        if file is None:
            missing.append((Unread(Among.LABELS, row.readable, NOT_IN_TABLE), None))
            continue
        [record] = records_of_files([file], [names.get(row.class_id or ASIDE, "")])
        missing.append(
            (Unread(Among.LABELS, shown(row.item), GONE), replace(record, item=None, reason=GONE))
        )
    return missing


def _subset(items: Items, places: Sequence[int]) -> Items:
    is_table = items.modality is Modality.TABLE
    rows = (
        items.items.iloc[list(places)]  # type: ignore[attr-defined]
        if is_table
        else tuple(items.items[place] for place in places)
    )
    names = tuple(items.names[place] for place in places)
    return replace(items, items=rows, names=names, records=(), given=())


def _answers(
    classifier: TailClassifier, queries: _Queries, examples: LabelledItems, vectors: ItemVectors
) -> Answers:
    rows = vectors.at(np.array(queries.places, dtype=np.int64)) if queries.places else None
    answered = [] if rows is None else answer_rows(classifier, rows, COVERAGE, TOP)
    encoder = vectors.chosen_encoder
    return Answers(
        answers=tuple(
            Answer(place=number, name=queries.items.names[number], **answer)
            for number, answer in enumerate(answered)
        ),
        unreadable=(),
        modality=queries.items.modality,
        encoder=encoder.name,
        examples=dict(sorted(Counter(examples.labels).items())),
        coverage=COVERAGE,
        joint=False,
        notes=tuple(encoder.notes),
    )
