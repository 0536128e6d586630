"""Load frozen models of `transformers`, from safetensors and without running remote code."""

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
"""Version of our pre- and postprocessing; increased whenever either changes."""
SPARE = frozenset({"pooler", "masked_spec_embed", "mask_token"})
"""Modules that checkpoints often lack and encoders do not need."""


@dataclass(frozen=True, eq=False)
class Pretrained:
    """A frozen model and its input processor."""

    model: nn.Module
    """In float32 and evaluation mode, on the chosen device."""
    processor: Any
    """The model's own tokenizer, image processor or feature extractor."""
    fingerprint: str
    """Hash of the weights, the settings, the classes that load them and `PREPROCESSING`."""
    untrained: frozenset[str] = frozenset()
    """Modules of `SPARE` that the checkpoint lacks; their weights here are random."""


def load_pretrained(
    name: str,
    *,
    model_class: str,
    processor_class: str,
    device: torch.device,
    config: object = None,
) -> Pretrained:
    """Load a model from a folder, from the hub's local cache, or from the hub.

    The classes are names in `transformers`. `config` replaces the model's own, to load only a part
    of it. A model is refused if its files lack weights of the class, which would be random.
    """
    transformers = optional("transformers", extra="encoders")
    folder = locate(name)
    check_folder(folder, name)
    common = {"trust_remote_code": False, "local_files_only": True}
    # Vectors must not depend on whether torchvision is installed.
    backend = {"backend": "pil"} if processor_class == "AutoImageProcessor" else {}
    own_config = {} if config is None else {"config": config}
    with quiet(transformers), load_errors(name):
        processor = getattr(transformers, processor_class).from_pretrained(
            folder, **common, **backend
        )
        model, report = getattr(transformers, model_class).from_pretrained(
            folder, use_safetensors=True, output_loading_info=True, **common, **own_config
        )
        model = model.to(device=device, dtype=torch.float32).eval().requires_grad_(False)
    untrained = _untrained(report["missing_keys"], name)
    fingerprint = combine(*hashes(folder), model_class, processor_class, str(PREPROCESSING))
    return Pretrained(model, processor, fingerprint, untrained)


def combine(*parts: str) -> str:
    """Return one fingerprint of several strings, in their order."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@contextmanager
def load_errors(name: str) -> Iterator[None]:
    """Turn any error that transformers raises on a broken or unsuitable model into ours."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise cannot_load(name, f"{type(error).__name__}: {first_line(error)}") from error


def _untrained(missing: Iterable[str], name: str) -> frozenset[str]:
    """Return the spare modules that the checkpoint lacks; other missing weights are an error."""
    modules = {key: SPARE.intersection(key.split(".")) for key in missing}
    needed = sorted(key for key, spare in modules.items() if not spare)
    if needed:
        raise cannot_load(name, f"a file without the weights {', '.join(needed[:3])}")
    return frozenset().union(*modules.values())


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:  # noqa: ANN401 - a module
    """Silence progress bars and reports; missing weights, which they report, are checked here."""
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
