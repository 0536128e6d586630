"""The manifest of a feature bank, and the names of its files."""

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
"""Version of the folder's layout; readers refuse any other."""
MANIFEST_FILE = "manifest.json"
CLASSES_FILE = "classes.json"
FEATURES_FILE = "features.npy"
LABELS_FILE = "labels.npy"


class FeatureType(StrEnum):
    """The dtype in which features are stored."""

    FLOAT16 = "float16"
    FLOAT32 = "float32"


@dataclass(frozen=True, kw_only=True)
class BankManifest:
    """Origin, shape and file hashes of a bank."""

    name: str
    """Name of the data set, for instance "tiny_imagenet"."""
    encoder: str
    """The frozen encoder phi_T that made the features."""
    encoder_revision: str = ""
    """Version of the encoder's weights."""
    preprocessing: str = ""
    """Processing of the raw data before the encoder, and of its output."""
    source: str = ""
    """What the bank was made from; for a single file with its hash."""
    licence: str = ""
    """Licence of the data."""
    rows: int
    """Number of examples."""
    feature_dim: int
    """Width of the features, d_T."""
    dtype: FeatureType = FeatureType.FLOAT16
    """Dtype in which the features are stored."""
    labels_sha256: str = ""
    """Hash of the file of class indices; empty until the bank is complete."""
    features_sha256: str = ""
    """Hash of the file of features; empty until the bank is complete."""
    format: int = FORMAT
    """Version of the folder's layout."""

    def __post_init__(self) -> None:
        for field in ("name", "encoder", "licence"):
            text = getattr(self, field)
            # A name on the command line may contain bytes that are not valid text.
            valid = text == text.encode("utf-8", "replace").decode()
            require(valid, field, got=ascii(text), allowed="text that UTF-8 can encode")
        require(bool(self.name), "name", got="nothing", allowed="the name of the data set")
        # A bank is called ENCODER/NAME, and encoders from the hub have a slash in their name.
        require("/" not in self.name, "name", got=self.name, allowed="a name without a slash")
        require(bool(self.encoder), "encoder", got="nothing", allowed="the name of the encoder")
        require(self.rows >= 1, "rows", got=self.rows, allowed="1 or more")
        require(self.feature_dim >= 1, "feature_dim", got=self.feature_dim, allowed="1 or more")
        require(self.format == FORMAT, "format", got=self.format, allowed=f"{FORMAT}")


def read_manifest(folder: Path) -> BankManifest:
    """Read the manifest of a bank; unknown keys are an error."""
    table = _read_json(folder / MANIFEST_FILE)
    if not isinstance(table, dict) or "format" not in table:
        raise InvalidBank(
            f"{folder} is not a feature bank",
            got=f"a {MANIFEST_FILE} without a format version",
            allowed=f"a table with the key format = {FORMAT}",
        )
    if table["format"] != FORMAT:  # checked first, since other versions may have other keys
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
    """Return class names as a tuple; names that are not text, or not unique, are an error."""
    not_text = [name for name in names if not isinstance(name, str)]
    repeated = [] if not_text else [name for name, count in Counter(names).items() if count > 1]
    if not_text or repeated:
        raise InvalidBank(
            f"the class names of {where} are wrong",
            got=f"{not_text[0]!r}" if not_text else f"{repeated[0]!r} more than once",
            allowed="a list of distinct names",
        )
    return tuple(names)


def check_same(
    stored: Mapping[str, Any], wanted: Mapping[str, Any], what: str, remedy: str
) -> None:
    """Raise an error if a stored bank differs from the wanted one."""
    keys = [key for key in {**wanted, **stored} if stored.get(key) != wanted.get(key)]
    if keys:
        raise InvalidBank(
            f"{what} does not match",
            got=", ".join(f"{key} = {_short(stored.get(key))}" for key in keys),
            allowed=", ".join(f"{key} = {_short(wanted.get(key))}" for key in keys),
            remedy=remedy,
        )


def describe(manifest: BankManifest, class_names: tuple[str, ...]) -> dict[str, Any]:
    """Return what identifies the content of a bank, as JSON data: its manifest without hashes."""
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


def _short(value: object, max_length: int = 60) -> str:
    text = repr(str(value) if isinstance(value, str) else value)
    return text if len(text) <= max_length else f"{text[:max_length]}..."
