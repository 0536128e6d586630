"""The log of a run: one JSON object a line, nothing after the checkpoint that is resumed."""

import json
from pathlib import Path
from typing import Any

from unitail.extras import optional
from unitail.files import disk_errors, write_text

Entry = dict[str, Any]


class RunLog:
    """Appends entries to `log.jsonl`, and to TensorBoard if asked to."""

    def __init__(self, folder: Path, *, tensorboard: bool = False) -> None:
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "log.jsonl"
        self._board = _tensorboard(folder) if tensorboard else None

    def rewind(self, step: int) -> None:
        """Forget what came after `step`: a resumed run writes it again."""
        kept = [entry for entry in self.read() if entry["step"] <= step]
        with disk_errors(self.path):
            write_text(self.path, "".join(json.dumps(entry) + "\n" for entry in kept))

    def write(self, entry: Entry) -> None:
        """Add an entry; every entry has a `step`."""
        with disk_errors(self.path), self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        if self._board is not None:
            for name, value in entry.items():
                if name != "step" and isinstance(value, float):
                    self._board.add_scalar(name, value, entry["step"])

    def read(self) -> list[Entry]:
        """Return the entries; a last line that a kill cut short is left out."""
        entries = []
        for line in self.path.read_text().splitlines() if self.path.exists() else ():
            try:
                entries.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return entries


def _tensorboard(folder: Path) -> Any:  # noqa: ANN401 - an optional package has no types here
    optional("tensorboard", extra="tensorboard")  # which torch imports without a word of it
    board = optional("torch.utils.tensorboard", extra="tensorboard")
    return board.SummaryWriter(str(folder / "tensorboard"))
