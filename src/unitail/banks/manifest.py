"""What a feature bank says about itself, and the names of its files."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from unitail.configuration import from_table, parse_json, to_table
from unitail.errors import InvalidBank, InvalidConfig, require
from unitail.files import regular

FORMAT = 1
"""The version of the folder's layout; readers refuse others."""
MANIFEST_FILE = "manifest.json"
CLASSES_FILE = "classes.json"
FEATURES_FILE = "features.npy"
LABELS_FILE = "labels.npy"


class FeatureType(StrEnum):
    """How the features are stored."""

    FLOAT16 = "float16"
    FLOAT32 = "float32"


@dataclass(frozen=True, kw_only=True)
class BankManifest:
    """Where the features of a bank come from, their shape, and hashes of the files."""

    name: str
    """The data set, for instance "tiny_imagenet"."""
    encoder: str
    """The frozen encoder phi_T that made the features."""
    encoder_revision: str = ""
    """Which version of the encoder's weights."""
    preprocessing: str = ""
    """What was done to the raw data before the encoder, and to its output after it."""
    source: str = ""
    """What the bank was made from; for a single file with its hash."""
    licence: str = ""
    """Under which terms the data may be used."""
    rows: int
    """How many examples there are."""
    feature_dim: int
    """d_T."""
    dtype: FeatureType = FeatureType.FLOAT16
    """How the features are stored."""
    labels_sha256: str = ""
    """Hash of the file of the class indices; empty until the bank is complete."""
    features_sha256: str = ""
    """Hash of the file of the features; empty until the bank is complete."""
    format: int = FORMAT
    """The version of the folder's layout."""

    def __post_init__(self) -> None:
        for each in ("name", "encoder", "licence"):
            given = getattr(self, each)
            # A name on the command line may be bytes that are no text.
            whole = given == given.encode("utf-8", "replace").decode()
            require(whole, each, got=ascii(given), allowed="text that UTF-8 can hold")
        require(bool(self.name), "name", got="nothing", allowed="the name of the data set")
        # A bank is called ENCODER/NAME, and the encoder of a hub has a slash of its own.
        require("/" not in self.name, "name", got=self.name, allowed="a name without a slash")
        require(bool(self.encoder), "encoder", got="nothing", allowed="the name of the encoder")
        require(self.rows >= 1, "rows", got=self.rows, allowed="1 or more")
        require(self.feature_dim >= 1, "feature_dim", got=self.feature_dim, allowed="1 or more")
        require(self.format == FORMAT, "format", got=self.format, allowed=f"{FORMAT}")


def read_manifest(folder: Path) -> BankManifest:
    """Read the manifest of a bank, refusing keys that it does not know."""
    table = _read_json(folder / MANIFEST_FILE)
    if not isinstance(table, dict) or "format" not in table:
        raise InvalidBank(
            f"{folder} is not a feature bank",
            got=f"a {MANIFEST_FILE} without a format version",
            allowed=f"a table with the key format = {FORMAT}",
        )
    if table["format"] != FORMAT:  # before the keys, which other versions may have others of
        raise InvalidBank(
            f"the bank {folder} has another format version",
            got=table["format"],
            allowed=f"{FORMAT}",
            remedy="Update unitail, or make the bank again with this version.",
        )
    try:
        return from_table(BankManifest, table, MANIFEST_FILE)
    except InvalidConfig as error:
        raise InvalidBank(
            f"the manifest of {folder} is wrong: {error.wrong}",
            got=error.got,
            allowed=error.allowed,
        ) from error


def read_classes(folder: Path) -> tuple[str, ...]:
    """Read the class names of a bank."""
    names = _read_json(folder / CLASSES_FILE)
    if not isinstance(names, list):
        raise InvalidBank(
            f"the class names of {folder} are wrong",
            got=f"a {type(names).__name__} in {CLASSES_FILE}",
            allowed="a list of names",
        )
    return checked_names(names, f"the bank {folder}")


def checked_names(names: Sequence[Any], where: str) -> tuple[str, ...]:
    """Refuse class names that are not text, and names that come twice."""
    odd = [name for name in names if not isinstance(name, str)]
    twice = [] if odd else [name for name, count in Counter(names).items() if count > 1]
    if odd or twice:
        raise InvalidBank(
            f"the class names of {where} are wrong",
            got=f"{odd[0]!r}" if odd else f"{twice[0]!r} more than once",
            allowed="a list of different names",
        )
    return tuple(names)


def check_same(
    stored: Mapping[str, Any], wanted: Mapping[str, Any], what: str, remedy: str
) -> None:
    """Refuse to go on with a bank that was made from something else."""
    keys = [key for key in {**wanted, **stored} if stored.get(key) != wanted.get(key)]
    if keys:
        raise InvalidBank(
            f"{what} is another one",
            got=", ".join(f"{key} = {_short(stored.get(key))}" for key in keys),
            allowed=", ".join(f"{key} = {_short(wanted.get(key))}" for key in keys),
            remedy=remedy,
        )


def describe(manifest: BankManifest, class_names: tuple[str, ...]) -> dict[str, Any]:
    """List what two banks made from the same thing have in common, as JSON gives it back."""
    table = {**to_table(manifest), "class_names": list(class_names)}
    return {key: value for key, value in table.items() if not key.endswith("_sha256")}


def _read_json(path: Path) -> object:
    try:
        content: object = parse_json(regular(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidBank(
            f"{path.parent} is not a feature bank",
            got=f"{type(error).__name__} on {path.name}",
            allowed=f"a folder with {MANIFEST_FILE}, {CLASSES_FILE}, {FEATURES_FILE} and"
            f" {LABELS_FILE}",
        ) from error
    return content


def _short(value: object, longest: int = 60) -> str:
    text = repr(str(value) if isinstance(value, str) else value)
    return text if len(text) <= longest else f"{text[:longest]}..."
