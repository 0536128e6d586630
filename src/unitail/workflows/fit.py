"""Fit a classifier on labelled files to save it, and use a saved one in place of examples."""

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
    choose_encoder,
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
    """Number of examples of each class that were read."""
    unreadable: tuple[Unread, ...]
    num_cached: int
    """Number of examples and items of the pool whose vectors came from the cache."""
    notes: tuple[str, ...] = ()
    """Further notes for the user, a phrase each."""


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
    """Fit a classifier on all readable examples, and on an unlabelled pool if there is one."""
    chosen = choose_encoder(support, encoder, device)
    vectors, *pool_vectors = encode(
        chosen,
        support.items,
        *([] if pool is None else [pool.items]),
        on_unreadable="skip",
        cache=cache,
        on_progress=on_progress,
    )
    classifier = make_classifier(model, encoder=chosen, device=device)
    fit_examples(classifier, support, vectors, pool_vectors)
    return FittedFiles(
        classifier=classifier.with_encoder(chosen),
        encoder=chosen,
        notes=(*chosen.notes, *contradictions(support, vectors), *classifier._fitted.size_notes),
        examples=dict(sorted(Counter(support.labels[place] for place in vectors.kept).items())),
        unreadable=(
            *unread_items("examples", support, vectors),
            *unread_pool(pool, pool_vectors),
        ),
        num_cached=vectors.num_cached + sum(each.num_cached for each in pool_vectors),
    )


def add_pool(
    classifier: TailClassifier, pool: Items | None, cache: FeatureCache | None
) -> tuple[TailClassifier, tuple[Unread, ...]]:
    """Return a classifier that has also read a pool, and the pool's unreadable items."""
    encoder = classifier.kept_examples().encoder
    if pool is None or encoder is None:
        return classifier, ()
    [vectors] = encode(encoder, pool.items, on_unreadable="skip", cache=cache)
    extended = with_pool(classifier.with_encoder(None), [vectors])
    return extended.with_encoder(encoder), unread_pool(pool, [vectors])


def load_saved(
    model: str, *, joint: bool, balanced: bool, encoder: str | None, device: str
) -> TailClassifier | None:
    """Load a classifier saved by `unitail fit`; None if `model` learns from examples."""
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
    """Return a saved classifier's examples by label and layout; the items are not stored."""
    kept = classifier.kept_examples()
    encoder = kept.encoder
    if encoder is None:
        raise InvalidInput(
            "the saved classifier was fitted on vectors",
            got="files, texts or rows to answer",
            allowed="a classifier that `unitail fit` made, or that was fitted with an encoder",
            remedy="Use it in Python: TailClassifier.load(folder).predict(vectors).",
        )
    labels = tuple(str(label) for label in kept.labels)
    names = tuple(f"example {place + 1}" for place in range(len(labels)))
    if isinstance(encoder, TableEncoder):
        table = _empty_table(encoder)
        return LabelledItems(items=table, names=names, labels=labels, modality=Modality.TABLE)
    if isinstance(encoder, MixedEncoder):
        cells = encoder.cells
        table = _empty_table(cells) if cells else optional("pandas", extra="encoders").DataFrame()
        layout = Layout(encoder.contents, tuple(table), encoder.dropped)
        for name in encoder.contents:
            table[name] = None
        return LabelledItems(
            items=table, names=names, labels=labels, modality=Modality.TABLE, layout=layout
        )
    return LabelledItems(
        items=(),
        names=names,
        labels=labels,
        modality=encoder.encoder.modality,
        content_column=encoder.content_column,
    )


def _empty_table(encoder: TableEncoder) -> Any:  # noqa: ANN401 - a DataFrame
    """Return a table without rows, with the column types of the examples."""
    pandas = optional("pandas", extra="encoders")
    types = {
        column.name: "float64" if getattr(column, "kind", None) is Kind.NUMBER else object
        for column in encoder.columns
    }
    table = pandas.DataFrame({name: pandas.Series(dtype=kind) for name, kind in types.items()})
    dates = [
        column.name for column in encoder.columns if getattr(column, "kind", None) is Kind.DATE
    ]
    orders = {**dict.fromkeys(dates), **encoder.reading.get(ORDERS, {})}
    return with_reading(table, {**encoder.reading, ORDERS: orders})
