"""What makes vectors of a user's inputs, and how it is saved with a classifier."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.registry import make_encoder
from unitail.encoders.tables import TableEncoder
from unitail.errors import InvalidCheckpoint, UserError
from unitail.inputs.recognise import listed

AUTO = "auto"
"""The name of the encoder that fits what the examples are."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ItemEncoder:
    """A frozen encoder, and how it was chosen."""

    encoder: Encoder[Any]
    named: bool
    """Whether its name makes it again; if so, it is neither saved nor pickled."""
    strings_are_files: bool = False
    device: str = AUTO
    content_column: str | None = None
    """The column of the examples' table that they were in."""

    notes = ()

    @property
    def name(self) -> str:
        """What users call the encoder."""
        return self.encoder.name

    def items(self, inputs: Any) -> list[object]:  # noqa: ANN401 - whatever users give
        """List the items, with a `Path` for each file."""
        items = listed(inputs)
        if not self.strings_are_files:
            return items
        return [Path(item) if isinstance(item, str) else item for item in items]

    def __reduce__(self) -> tuple[Any, ...]:
        encoder = None if self.named else self.encoder
        return restore_encoder, (describe_encoder(self), encoder, self.device)


InputEncoder: TypeAlias = ItemEncoder | TableEncoder
"""What makes vectors of inputs, fixed by the labelled examples."""


def describe_encoder(encoder: InputEncoder | None) -> dict[str, Any] | None:
    """Return what `restore_encoder` needs, as JSON holds it."""
    if encoder is None:
        return None
    if isinstance(encoder, TableEncoder):
        return {"columns": encoder.to_dict()}
    return {
        "encoder": encoder.name,
        "modality": str(encoder.encoder.modality),
        "fingerprint": encoder.encoder.fingerprint,
        "strings_are_files": encoder.strings_are_files,
        "content_column": encoder.content_column,
    }


def restore_encoder(
    table: Mapping[str, Any] | None, own: Encoder[Any] | None, device: object
) -> InputEncoder | None:
    """Make the encoder that `describe_encoder` told of; `own` is given if no name makes it."""
    try:
        return _restored(table, own, str(device))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise InvalidCheckpoint(
            "what was saved of the encoder is damaged",
            got=f"{type(error).__name__}: {error}",
            allowed="what `save` writes",
            remedy="Save the classifier again, or name another folder.",
        ) from error


def _restored(
    table: Mapping[str, Any] | None, own: Encoder[Any] | None, device: str
) -> InputEncoder | None:
    if table is None:
        return None
    if "columns" in table:
        return TableEncoder.from_dict(table["columns"])
    name, modality = table["encoder"], Modality(table["modality"])
    encoder = make_encoder(name, modality, device=device) if own is None else own
    if encoder.fingerprint != table["fingerprint"]:
        raise InvalidCheckpoint(
            f"the encoder {encoder.name} is not the one that the classifier was fitted with",
            got=f"fingerprint {encoder.fingerprint}",
            allowed=f"{name} with fingerprint {table['fingerprint']}",
            remedy="Load it with that encoder, or fit it again.",
        )
    return ItemEncoder(
        encoder=encoder,
        named=own is None,
        strings_are_files=bool(table["strings_are_files"]),
        device=device,
        content_column=table.get("content_column"),
    )
