"""Pretrained models of `transformers`, frozen; weights as safetensors, no code of their authors."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from unitail.encoders.model_folder import cannot_load, check_folder, first_line, hashes, locate
from unitail.errors import UserError, optional

PREPROCESSING = 1
"""Raised whenever this package changes what models are given, or what is made of their answers."""
SPARE = frozenset({"pooler", "masked_spec_embed", "mask_token"})
"""Parts that checkpoints often lack, and that encoders can do without."""


@dataclass(frozen=True, eq=False)
class Pretrained:
    """A frozen model and what prepares its inputs."""

    model: nn.Module
    """In float32, for inference, on the device that was asked for."""
    processor: Any
    """The model's own tokenizer, image processor or feature extractor."""
    fingerprint: str
    """A hash of the weights, the settings, the classes that read them and `PREPROCESSING`."""
    untrained: frozenset[str] = frozenset()
    """Which of `SPARE` the checkpoint lacks, so that their weights here are random."""


def load_pretrained(
    name: str,
    *,
    model_class: str,
    processor_class: str,
    device: torch.device,
    config: object = None,
) -> Pretrained:
    """Load a model from a folder, from the hub's cache on this disk, or from the hub.

    The classes are named as `transformers` names them. `config` replaces the model's own, to load
    a part of it. A model is refused if the class has weights that its file does not hold, because
    they would be random.
    """
    transformers = optional("transformers", extra="encoders")
    folder = locate(name)
    check_folder(folder, name)
    common = {"trust_remote_code": False, "local_files_only": True}
    # The same vectors whether torchvision is installed or not.
    backend = {"backend": "pil"} if processor_class == "AutoImageProcessor" else {}
    given = {} if config is None else {"config": config}
    with quiet(transformers), load_errors(name):
        processor = getattr(transformers, processor_class).from_pretrained(
            folder, **common, **backend
        )
        model, report = getattr(transformers, model_class).from_pretrained(
            folder, use_safetensors=True, output_loading_info=True, **common, **given
        )
        model = model.to(device=device, dtype=torch.float32).eval().requires_grad_(False)
    untrained = _untrained(report["missing_keys"], name)
    fingerprint = combine(*hashes(folder), model_class, processor_class, str(PREPROCESSING))
    return Pretrained(model, processor, fingerprint, untrained)


def combine(*parts: str) -> str:
    """Make one fingerprint of several strings, in their order."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@contextmanager
def load_errors(name: str) -> Iterator[None]:
    """Turn whatever a broken or unsuited model makes transformers raise into one sentence."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise cannot_load(name, f"{type(error).__name__}: {first_line(error)}") from error


def _untrained(missing: Iterable[str], name: str) -> frozenset[str]:
    """Return the spare parts that the checkpoint lacks; refuse it if it lacks others."""
    parts = {key: SPARE.intersection(key.split(".")) for key in missing}
    lost = sorted(key for key, spare in parts.items() if not spare)
    if lost:
        raise cannot_load(name, f"a file without the weights {', '.join(lost[:3])}")
    return frozenset().union(*parts.values())


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:  # noqa: ANN401 - a module
    """Silence bars and reports; what they would say of missing weights is checked instead."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
