"""Labelled examples as a classifier in a folder, and such a folder in place of examples."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Modality
from unitail.encoders.tables import Kind, TableEncoder
from unitail.errors import InvalidCheckpoint, InvalidInput, optional
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.saving.folder import is_classifier
from unitail.inputs.cells import ORDERS, with_reading
from unitail.inputs.columns import Layout
from unitail.inputs.encode import Unread, contradictions, encode, unread_items
from unitail.inputs.input_encoder import InputEncoder, MixedEncoder
from unitail.inputs.items import Items, LabelledItems
from unitail.learners.checkpoint import is_model
from unitail.learners.pretrained import DEFAULT, SHIPPED_DRAWS
from unitail.progress import OnProgress
from unitail.wording import shown
from unitail.workflows.predict import (
    choose_for,
    fit_examples,
    make_classifier,
    unread_pool,
    with_pool,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedFiles:
    """A classifier that takes files, texts or rows like the examples."""

    classifier: TailClassifier
    encoder: InputEncoder
    examples: Mapping[str, int]
    """How many examples of each class were read."""
    unreadable: tuple[Unread, ...]
    num_cached: int
    """How many examples, and rows of the pool, had been encoded before."""
    notes: tuple[str, ...] = ()
    """What else the user should know, a phrase each."""


def fit_files(
    support: LabelledItems,
    *,
    encoder: str | None = None,
    model: str = DEFAULT,
    pool: Items | None = None,
    cache: FeatureCache | None = None,
    device: str = "auto",
    on_progress: OnProgress | None = None,
) -> FittedFiles:
    """Fit a classifier on all examples that can be read, and on a pool without labels."""
    by = choose_for(support, encoder, device)
    known, *others = encode(
        by,
        support.items,
        *([] if pool is None else [pool.items]),
        on_unreadable="skip",
        cache=cache,
        on_progress=on_progress,
    )
    classifier = make_classifier(model, encoder=by, device=device)
    fit_examples(classifier, support, known, others)
    return FittedFiles(
        classifier=classifier.with_encoder(by),
        encoder=by,
        notes=(*by.notes, *contradictions(support, known), *classifier._fitted.size_notes),
        examples=dict(sorted(Counter(support.labels[place] for place in known.kept).items())),
        unreadable=(
            *unread_items("examples", support, known),
            *unread_pool(pool, others),
        ),
        num_cached=known.num_cached + sum(each.num_cached for each in others),
    )


def add_pool(
    classifier: TailClassifier, pool: Items | None, cache: FeatureCache | None
) -> tuple[TailClassifier, tuple[Unread, ...]]:
    """Return a classifier with an encoder after it has read a pool, and what it could not read."""
    by = classifier.kept_examples().encoder
    if pool is None or by is None:
        return classifier, ()
    [vectors] = encode(by, pool.items, on_unreadable="skip", cache=cache)
    asked = with_pool(classifier.with_encoder(None), [vectors])
    return asked.with_encoder(by), unread_pool(pool, [vectors])


def load_saved(
    model: str, *, joint: bool, balanced: bool, encoder: str | None, device: str
) -> TailClassifier | None:
    """Load what `unitail fit` saved; None if `model` is one that learns from examples."""
    folder = Path(model)
    if model in SHIPPED_DRAWS or (is_model(folder) and not is_classifier(folder)):
        return None
    if not is_classifier(folder):
        raise InvalidCheckpoint(
            f"{shown(folder)} is not a model",
            got="another folder or file" if folder.exists() else "no such folder",
            allowed=f"a folder that `unitail fit --save` wrote, or {', '.join(SHIPPED_DRAWS)}",
            remedy="Name another folder with --model.",
        )
    if encoder is not None:
        raise InvalidInput(
            f"{shown(folder)} has its own encoder",
            got=f"--encoder {encoder}",
            allowed="--model without --encoder",
            remedy="Leave out --encoder, or fit again with it.",
        )
    visibility = "joint" if joint else None
    shares = "balanced" if balanced else None
    return TailClassifier.load(folder, device=device, visibility=visibility, class_shares=shares)


def remembered_examples(classifier: TailClassifier) -> LabelledItems:
    """Describe the examples of a saved classifier; they themselves are not kept."""
    kept = classifier.kept_examples()
    by = kept.encoder
    if by is None:
        raise InvalidInput(
            "the saved classifier was fitted on vectors",
            got="files, texts or rows to answer",
            allowed="a classifier that `unitail fit` made, or that was fitted with an encoder",
            remedy="Ask it in Python: TailClassifier.load(folder).predict(vectors).",
        )
    labels = tuple(str(label) for label in kept.labels)
    names = tuple(f"example {place + 1}" for place in range(len(labels)))
    if isinstance(by, TableEncoder):
        table = _empty_table(by)
        return LabelledItems(items=table, names=names, labels=labels, modality=Modality.TABLE)
    if isinstance(by, MixedEncoder):
        cells = by.cells
        table = _empty_table(cells) if cells else optional("pandas", extra="encoders").DataFrame()
        layout = Layout(by.contents, tuple(table), by.dropped)
        for name in by.contents:
            table[name] = None
        return LabelledItems(
            items=table, names=names, labels=labels, modality=Modality.TABLE, layout=layout
        )
    return LabelledItems(
        items=(),
        names=names,
        labels=labels,
        modality=by.encoder.modality,
        content_column=by.content_column,
    )


def _empty_table(by: TableEncoder) -> Any:  # noqa: ANN401 - a DataFrame
    """Return a table without rows whose columns are of the types of the examples'."""
    pandas = optional("pandas", extra="encoders")
    types = {
        column.name: "float64" if getattr(column, "kind", None) is Kind.NUMBER else object
        for column in by.columns
    }
    table = pandas.DataFrame({name: pandas.Series(dtype=kind) for name, kind in types.items()})
    dates = [column.name for column in by.columns if getattr(column, "kind", None) is Kind.DATE]
    orders = {**dict.fromkeys(dates), **by.reading.get(ORDERS, {})}
    return with_reading(table, {**by.reading, ORDERS: orders})
