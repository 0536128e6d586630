"""From what users give as X to vectors: `TailClassifier(encoder=...)`."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unitail.encoders.cache import default_cache
from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.encoding import Failure, encode_items
from unitail.encoders.registry import default_encoder, encoder_names, make_encoder
from unitail.encoders.tables import TableEncoder
from unitail.errors import InvalidCheckpoint, InvalidConfig, InvalidSource, Unreadable, UserError
from unitail.inputs.recognise import are_files, is_frame, listed, recognise

Examples: TypeAlias = ArrayLike | Sequence[object]
"""What users may give as X: vectors, or items for the encoder."""
AUTO = "auto"
"""The name of the encoder that fits what X holds."""
SHOWN = 3
"""The most unreadable items that a message tells of."""


class Inputs(Protocol):
    """A map from X to vectors, fixed in `fit`."""

    def vectors(self, rows: Any) -> Any:  # noqa: ANN401 - whatever users give
        """Return an array (n, d_T), or what scikit-learn will make one of."""

    def to_table(self) -> dict[str, Any] | None:
        """Return what `inputs_from_table` needs to make the map again, as JSON holds it."""


class VectorInputs:
    """X holds vectors, which are taken as they are."""

    def vectors(self, rows: Any) -> Any:  # noqa: ANN401
        """Return X."""
        return rows

    def to_table(self) -> None:
        """Return None: there is nothing to keep."""


@dataclass(frozen=True, eq=False)
class TableInputs:
    """X holds rows of a table; scales and categories are those of the rows that were fitted."""

    encoder: TableEncoder

    def vectors(self, rows: Any) -> NDArray[np.float32]:  # noqa: ANN401
        """Encode the rows of a table with the same columns."""
        if not is_frame(rows):
            raise InvalidSource(
                "the classifier was fitted on a table",
                got=type(rows).__name__,
                allowed="a DataFrame with the same columns",
                remedy="Make a DataFrame of X.",
            )
        return self.encoder.transform(rows)

    def to_table(self) -> dict[str, Any]:
        """Return the columns."""
        return {"columns": self.encoder.to_dict()}


@dataclass(frozen=True, kw_only=True, eq=False)
class ItemInputs:
    """X holds files or objects for an encoder."""

    encoder: Encoder[Any]
    named: bool
    """Whether the name alone makes the encoder again; if so, it is neither saved nor pickled."""
    strings_are_files: bool
    device: str

    def vectors(self, rows: Any) -> NDArray[np.float32]:  # noqa: ANN401
        """Encode all items, or tell which cannot be."""
        items = listed(rows)
        if self.strings_are_files:
            items = [Path(item) if isinstance(item, str) else item for item in items]
        cache = default_cache()
        found = encode_items(self.encoder, items, cache=cache)
        if cache.trouble is not None:
            warnings.warn(cache.trouble, stacklevel=3)
        if found.unreadable:
            raise _unreadable(self.encoder.name, found.unreadable, items)
        return found.features

    def to_table(self) -> dict[str, Any]:
        """Return which encoder it is."""
        return {
            "encoder": self.encoder.name,
            "modality": str(self.encoder.modality),
            "fingerprint": self.encoder.fingerprint,
            "strings_are_files": self.strings_are_files,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        encoder = None if self.named else self.encoder
        return inputs_from_table, (self.to_table(), encoder, self.device)


def choose_inputs(encoder: object, rows: Any, device: object) -> Inputs:  # noqa: ANN401
    """Return the map for X that the classifier's options mean."""
    if encoder is None:
        return VectorInputs()
    if isinstance(encoder, Encoder):
        return _item_inputs(encoder, rows, named=False, device=str(device))
    if not isinstance(encoder, str):
        raise InvalidConfig(
            "encoder is unknown",
            got=type(encoder).__name__,
            allowed=f"None, '{AUTO}', the name of an encoder, or an Encoder",
        )
    modality = None if encoder in encoder_names() else recognise(rows)
    if encoder == AUTO and modality is None:
        return VectorInputs()
    if encoder == AUTO and modality is Modality.TABLE:
        return TableInputs(TableEncoder().fit(rows))
    name = default_encoder(modality) if encoder == AUTO and modality else encoder
    made = make_encoder(name, modality, device=str(device))
    return _item_inputs(made, rows, named=True, device=str(device))


def inputs_from_table(
    table: Mapping[str, Any] | None, encoder: Encoder[Any] | None, device: object
) -> Inputs:
    """Make the map that `to_table` told of; `encoder` is given if its name does not make it."""
    try:
        return _made_again(table, encoder, str(device))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise InvalidCheckpoint(
            "what was saved of the encoder is damaged",
            got=f"{type(error).__name__}: {error}",
            allowed="what `save` writes",
            remedy="Save the classifier again, or name another folder.",
        ) from error


def _made_again(
    table: Mapping[str, Any] | None, encoder: Encoder[Any] | None, device: str
) -> Inputs:
    if table is None:
        return VectorInputs()
    if "columns" in table:
        return TableInputs(TableEncoder.from_dict(table["columns"]))
    name, modality = table["encoder"], Modality(table["modality"])
    again = make_encoder(name, modality, device=device) if encoder is None else encoder
    if again.fingerprint != table["fingerprint"]:
        raise InvalidCheckpoint(
            f"the encoder {again.name} is not the one that the classifier was fitted with",
            got=f"fingerprint {again.fingerprint}",
            allowed=f"{name} with fingerprint {table['fingerprint']}",
            remedy="Load it with that encoder, or fit it again.",
        )
    return ItemInputs(
        encoder=again,
        named=encoder is None,
        strings_are_files=bool(table["strings_are_files"]),
        device=device,
    )


def _item_inputs(encoder: Encoder[Any], rows: Any, *, named: bool, device: str) -> ItemInputs:  # noqa: ANN401
    return ItemInputs(
        encoder=encoder, named=named, strings_are_files=are_files(listed(rows)), device=device
    )


def _unreadable(name: str, failures: Sequence[Failure], items: Sequence[object]) -> Unreadable:
    """Tell of the first few items that cannot be read."""
    told = [_told(failure, items[failure.place]) for failure in failures[:SHOWN]]
    more = [f"and {len(failures) - SHOWN} more"] if len(failures) > SHOWN else []
    return Unreadable(
        f"{len(failures)} of {len(items)} items have no vector",
        got="; ".join([*told, *more]),
        allowed=f"what the encoder {name} reads",
        remedy="Mend them or leave them out.",
    )


def _told(failure: Failure, item: object) -> str:
    file = f" ({item})" if isinstance(item, Path) else ""
    return f"item {failure.place}{file}: {failure.reason}"
