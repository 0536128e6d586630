"""Saving and loading models as folders: weights as safetensors, configuration as JSON."""

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from unitail.configuration import ADDED_LATER, from_table, parse_json, to_table
from unitail.errors import CannotWrite, InvalidCheckpoint, choice
from unitail.files import fresh_folder, readable_folder, regular
from unitail.learners.registry import MODELS, ModelKind, build_model, learner_name
from unitail.nn.episode_model import AnyModel, ModelConfig, Visibility
from unitail.wording import excerpt

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
TRAINED = "trained_for"
"""Key of the visibilities used in training, if they are more than the model's own."""

FACTORIES = (torch.empty, torch.zeros, torch.ones, torch.full, torch.eye, torch.rand, torch.randn)
"""Functions that allocate tensors when a network is built."""
MAX_ERROR = 300
"""Characters kept of torch's error message, which lists every weight on a line of its own."""
SPARE_NUMBERS = 2**24
"""Numbers that building a network may allocate beyond four times its weights."""


def save_model(model: AnyModel, folder: Path | str) -> Path:
    """Save `model` to `folder`; an older model there is replaced once the new one is complete."""
    weights, trained = model.state_dict(), model.trained_visibilities
    return save_weights(model.config, weights, Path(folder), trained)


def save_weights(
    config: ModelConfig,
    weights: Mapping[str, Tensor],
    folder: Path,
    trained: Sequence[Visibility] = (),
) -> Path:
    """Save a model given by its configuration and weights; see `save_model`."""
    if folder.exists() and not (folder / CONFIG_FILE).exists() and any(folder.iterdir()):
        raise CannotWrite(
            f"{folder} holds something other than a model",
            got=", ".join(sorted(path.name for path in folder.iterdir())[:3]),
            allowed="a new or empty folder, or one with a model to replace",
            remedy="Name another folder.",
        )
    with fresh_folder(folder) as fresh:
        write_model(config, weights, fresh, trained)
    return folder


def write_model(
    config: ModelConfig,
    weights: Mapping[str, Tensor],
    folder: Path,
    trained: Sequence[Visibility] = (),
) -> None:
    """Write a model's files to an existing folder; `trained` lists the visibilities in training."""
    save_file(
        {name: tensor.contiguous() for name, tensor in weights.items()}, folder / WEIGHTS_FILE
    )
    table: dict[str, Any] = {"learner": learner_name(config), "config": to_table(config)}
    if trained:
        table[TRAINED] = [str(visibility) for visibility in dict.fromkeys(trained)]
    (folder / CONFIG_FILE).write_text(json.dumps(table, indent=2) + "\n")


def is_model(folder: Path) -> bool:
    """Return whether a folder holds a model, possibly an incomplete one."""
    folder = readable_folder(folder)
    return any((folder / name).exists() for name in (CONFIG_FILE, WEIGHTS_FILE))


def load_model(folder: Path | str) -> AnyModel:
    """Load a model from a folder that `save_model` wrote."""
    folder = readable_folder(Path(folder))
    kind, table, trained = _read_config(folder / CONFIG_FILE)
    config: ModelConfig = from_table(kind.config, table, f"{folder / CONFIG_FILE}: config")
    try:
        model = _build_for(config, folder / WEIGHTS_FILE)
        weights = load_file(folder / WEIGHTS_FILE)
        model.load_state_dict(weights)
        if not all(bool(tensor.isfinite().all()) for tensor in weights.values()):
            raise ValueError("numbers that are not finite")
    except Exception as error:  # absurd sizes make torch raise errors of any type
        raise InvalidCheckpoint(
            f"the weights in {folder} cannot be loaded",
            got=f"{type(error).__name__}: {excerpt(str(error), MAX_ERROR)}",
            allowed=f"a complete {WEIGHTS_FILE} that fits {CONFIG_FILE}",
        ) from error
    model.trained_visibilities = trained
    return model


class _Bounded(TorchFunctionMode):
    """Refuses to build a network that allocates far more numbers than its file holds.

    A small folder from an untrusted source could otherwise describe one that exhausts memory.
    """

    def __init__(self, numbers: int) -> None:
        super().__init__()
        self._budget = 4 * numbers + SPARE_NUMBERS

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever torch returns
        if function in FACTORIES:
            sizes = [each if isinstance(each, Sequence) else (each,) for each in args]
            numbers = [each for size in sizes for each in size if isinstance(each, int)]
            self._budget -= math.prod(numbers) ** (2 if function is torch.eye else 1)
            if self._budget < 0:
                raise ValueError("far fewer numbers than the network would have")
        return function(*args, **(kwargs or {}))


def _build_for(config: ModelConfig, path: Path) -> AnyModel:
    """Build the network for a weights file, after checking the shapes in the file."""
    with safe_open(regular(path), framework="pt") as file:
        shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
    if config.num_layers > len(shapes):
        raise ValueError(f"{len(shapes)} tensors for {config.num_layers} layers")
    with _Bounded(sum(map(math.prod, shapes))):
        return build_model(config)


def _read_config(path: Path) -> tuple[ModelKind, dict[str, Any], tuple[Visibility, ...]]:
    try:
        table: Any = parse_json(regular(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidCheckpoint(
            f"{path.parent} is not a model folder",
            got=f"{type(error).__name__} on {path.name}",
            allowed=f"a folder with {CONFIG_FILE} and {WEIGHTS_FILE}",
        ) from error
    described = table if isinstance(table, dict) else {}
    kind, config = MODELS.get(str(described.get("learner"))), described.get("config")
    if kind is None or not isinstance(config, dict) or set(_fields(kind)) - set(config):
        fields = f" with {', '.join(_fields(kind))}" if kind is not None else ""
        raise InvalidCheckpoint(
            f"{path} does not describe a model",
            got=f"learner {described.get('learner')!r}" if kind is None else "an incomplete config",
            allowed=f'"learner": one of {", ".join(MODELS)}, and a "config" table{fields}',
        )
    trained = described.get(TRAINED) or []
    return kind, config, tuple(choice(Visibility, name, f"{path}: {TRAINED}") for name in trained)


def _fields(kind: ModelKind) -> list[str]:
    """Return the names of the fields that every saved configuration must have."""
    fields = dataclasses.fields(kind.config)
    return [field.name for field in fields if field.metadata != ADDED_LATER]
