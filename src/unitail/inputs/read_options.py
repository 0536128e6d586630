"""What a user says of folders and tables where they do not show it themselves."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from unitail.configuration import choice
from unitail.encoders.encoder import Modality
from unitail.inputs.items import LabelledItems


@dataclass(frozen=True)
class ReadOptions:
    """How to read; `modality` and `content_column` decide where there is a doubt."""

    label_column: str = "label"
    content_column: str | None = None
    modality: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    """What single columns hold (see `columns.lay_out`)."""

    def __post_init__(self) -> None:
        if self.modality is not None:
            choice(Modality, self.modality, "modality")  # which refuses others

    @property
    def kind(self) -> Modality | None:
        """The modality that is said."""
        return None if self.modality is None else Modality(self.modality)

    def like(self, examples: LabelledItems | None) -> "ReadOptions":
        """Return how to read what is compared with these examples: as those were."""
        content = examples.content_column if examples else None
        modality = self.kind or (examples.modality if examples else None)
        return ReadOptions(self.label_column, self.content_column or content, modality)


PLAIN = ReadOptions()
