"""The models shipped with the package: loaded offline and only once, verified by hash."""

import json
from functools import cache
from pathlib import Path
from threading import Lock

import torch

from unitail.errors import InvalidCheckpoint
from unitail.files import sha256_of, write_json
from unitail.learners.checkpoint import CONFIG_FILE, WEIGHTS_FILE, load_model
from unitail.nn.episode_model import AnyModel

DEFAULT = "default"
SHIPPED_DRAWS = {DEFAULT: 1, "tail": 8, "tail-50w": 8}
"""The shipped models by name, with the number of draws to average over from their cards."""
FOLDER = Path(__file__).parent.parent / "weights" / DEFAULT
MANIFEST_FILE = "manifest.json"
"""Holds {"sha256": {file: hash}} for the files that determine what the model computes."""
SEALED = (CONFIG_FILE, WEIGHTS_FILE)
_LOADING = Lock()
REINSTALL = "Install unitail again, or give a model of your own: TailClassifier(model=FOLDER)."


def load_default(
    device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> AnyModel:
    """Return the default model; see `load_shipped`."""
    return load_shipped(DEFAULT, device, dtype)


def load_shipped(
    name: str, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> AnyModel:
    """Return a shipped model, loaded once for each device and dtype.

    All callers share the same object: copy it before changing its weights.
    """
    return _load(shipped_folder(name), torch.device(device), dtype)


def shipped_folder(name: str) -> Path:
    """Return the folder of a shipped model."""
    return FOLDER if name == DEFAULT else FOLDER.with_name(name)


def model_folder(name: str) -> Path:
    """Return the folder of a model, given the name of a shipped one or a folder."""
    return shipped_folder(name) if name in SHIPPED_DRAWS else Path(name)


def shipped_names() -> list[str]:
    """Return the names of the shipped models in this installation."""
    return [name for name in SHIPPED_DRAWS if (shipped_folder(name) / MANIFEST_FILE).exists()]


def _load(folder: Path, device: torch.device, dtype: torch.dtype) -> AnyModel:
    with _LOADING:  # `cache` alone would let several threads load the same model
        return _load_once(folder, device, dtype)


@cache
def _load_once(folder: Path, device: torch.device, dtype: torch.dtype) -> AnyModel:
    fingerprint(folder)
    model = load_model(folder).to(device, dtype)
    return model.eval().requires_grad_(False)


def fingerprint(folder: Path | None = None) -> str:
    """Verify the files against the manifest, and return the hash of the weights."""
    folder = folder or FOLDER
    hashes = _read_manifest(folder)
    for name in SEALED:
        path = folder / name
        actual = sha256_of(path) if path.exists() else "no such file"
        if actual != hashes.get(name):
            raise InvalidCheckpoint(
                f"the shipped model's {name} is damaged",
                got=actual,
                allowed=f"sha256 {hashes.get(name)}",
                remedy=REINSTALL,
            )
    return hashes[WEIGHTS_FILE]


def sealed_as(folder: Path) -> str:
    """Return the hashes of configuration and weights, which together determine the answers."""
    fingerprint(folder)
    hashes = _read_manifest(folder)
    return " ".join(hashes[name] for name in SEALED)


def write_manifest(folder: Path | str) -> Path:
    """Seal a model folder: write the hashes of its files to the manifest."""
    path = Path(folder) / MANIFEST_FILE
    write_json(path, {"sha256": {name: sha256_of(path.with_name(name)) for name in SEALED}})
    return path


def _read_manifest(folder: Path) -> dict[str, str]:
    """Return the hash of each file in the manifest."""
    path = folder / MANIFEST_FILE
    try:
        hashes = json.loads(path.read_text())["sha256"]
        return {str(name): str(value) for name, value in hashes.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidCheckpoint(
            "the shipped model cannot be found" if not path.exists() else "its manifest is damaged",
            got=f"{type(error).__name__} on {path.name}",
            allowed=f"{', '.join(SEALED)} and {MANIFEST_FILE} in unitail/weights/{folder.name}",
            remedy=REINSTALL,
        ) from error
