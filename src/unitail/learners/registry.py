"""The registry of all learners by name, for recipes, model folders, benchmarks and reports."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from unitail.baselines.caml import Caml, CamlConfig
from unitail.baselines.gpicl import Gpicl, GpiclConfig
from unitail.baselines.linear_probe import LinearProbe, ProbeVariant
from unitail.baselines.proto_head import ProtoHead, PrototypeVariant
from unitail.baselines.snail import Snail, SnailConfig
from unitail.configuration import from_table, to_table
from unitail.errors import InvalidConfig
from unitail.framework.learner import Inference
from unitail.learners.class_shares import EqualShares
from unitail.learners.in_context import InContextLearner
from unitail.nn.episode_model import AnyModel, ModelConfig, Visibility
from unitail.relational.config import PRESETS as RELATIONAL_PRESETS
from unitail.relational.config import RelationalConfig
from unitail.relational.model import Relational
from unitail.tail.config import PRESETS, TailConfig
from unitail.tail.model import Tail


@dataclass(frozen=True)
class ModelKind:
    """A meta-trained kind of model, with its configuration class and presets."""

    model: type[AnyModel]
    config: type[Any]
    presets: Mapping[str, Any]
    """Configurations by name, the default first; "paper" is the published one."""


MODELS: dict[str, ModelKind] = {
    "tail": ModelKind(Tail, TailConfig, PRESETS),
    "relational": ModelKind(Relational, RelationalConfig, RELATIONAL_PRESETS),
    "snail": ModelKind(Snail, SnailConfig, {"paper": SnailConfig()}),
    "gpicl": ModelKind(Gpicl, GpiclConfig, {"paper": GpiclConfig()}),
    "caml": ModelKind(Caml, CamlConfig, {"paper": CamlConfig()}),
}
"""The kinds of models that can be meta-trained, by their names in recipes and model folders."""


def model_kind(name: object) -> ModelKind:
    """Return the kind of model with this name."""
    if not isinstance(name, str) or name not in MODELS:
        raise InvalidConfig("unknown learner", got=name, allowed=", ".join(MODELS))
    return MODELS[name]


def learner_name(config: ModelConfig) -> str:
    """Return the name of the kind of model that a configuration is for."""
    return next(name for name, kind in MODELS.items() if type(config) is kind.config)


def build_model(config: ModelConfig, *, seed: int = 0) -> AnyModel:
    """Build a model with fresh weights."""
    build: Any = MODELS[learner_name(config)].model  # each takes its own type of configuration
    model: AnyModel = build(config, seed=seed)
    return model


def preset(name: str, *, learner: str = "tail", **changes: Any) -> Any:  # noqa: ANN401
    """Return the preset `name` of a learner's configuration, with some fields changed."""
    return model_config({"learner": learner, "preset": name, **changes}, f"preset {name}")


def model_config(table: Mapping[str, Any], where: str) -> ModelConfig:
    """Build a configuration from a table: `learner` and `preset` to start from, and changed fields.

    `learner` and `preset` default to the paper's TAIL.
    """
    changes = dict(table)
    kind = model_kind(changes.pop("learner", "tail"))
    name = changes.pop("preset", next(iter(kind.presets)))
    if not isinstance(name, str) or name not in kind.presets:
        raise InvalidConfig("unknown preset", got=name, allowed=", ".join(kind.presets))
    config: ModelConfig = from_table(
        kind.config, {**to_table(kind.presets[name]), **changes}, where
    )
    return config


@dataclass(frozen=True)
class NamedLearner:
    """A learner that is available by name, without a run folder."""

    label: str
    """Its name in reports."""
    build: Callable[[torch.device | str], Inference]
    """Builds the learner for a device."""
    variant: str = ""
    """How a shipped model is used; part of the key under which results are stored."""
    model: str = "default"
    """The name of the shipped model, if it is one."""


def _shipped(
    visibility: Visibility, model: str = "default"
) -> Callable[[torch.device | str], InContextLearner]:
    def build(device: torch.device | str) -> InContextLearner:
        # Imported here, as loading any model needs this module.
        from unitail.learners.pretrained import SHIPPED_DRAWS, load_shipped

        network = load_shipped(model, device)
        return InContextLearner(network, visibility=visibility, num_draws=SHIPPED_DRAWS[model])

    return build


def _balanced(device: torch.device | str) -> EqualShares:
    return EqualShares(_shipped(Visibility.JOINT)(device))


EXPLICIT = {
    "linear_probe_paper": NamedLearner(
        "logistic regression, as in the paper", lambda _: LinearProbe(ProbeVariant.PAPER)
    ),
    "linear_probe_tuned": NamedLearner(
        "logistic regression", lambda _: LinearProbe(ProbeVariant.TUNED)
    ),
    "linear_probe_shrunk": NamedLearner(
        "logistic regression, shrunk centre", lambda _: LinearProbe(ProbeVariant.SHRUNK)
    ),
    "proto_head_paper": NamedLearner(
        "prototypes, as in the paper", lambda _: ProtoHead(PrototypeVariant.PAPER)
    ),
    "proto_head_centred": NamedLearner("prototypes", lambda _: ProtoHead(PrototypeVariant.CENTRED)),
}
"""Explicit learners, which need no meta-training, by their keys in results."""
SHIPPED = {
    "unitail": NamedLearner("unitail", _shipped(Visibility.ISOLATED), "isolated"),
    "unitail_joint": NamedLearner("unitail, joint", _shipped(Visibility.JOINT), "joint"),
    "unitail_joint_balanced": NamedLearner("unitail, joint, balanced", _balanced, "joint balanced"),
    "tail": NamedLearner("TAIL, joint", _shipped(Visibility.JOINT, "tail"), "joint", "tail"),
    "tail_50w": NamedLearner(
        "TAIL 50w, joint", _shipped(Visibility.JOINT, "tail-50w"), "joint", "tail-50w"
    ),
}
"""The models shipped with the package, by their keys in results."""
LEARNERS = {**EXPLICIT, **SHIPPED}


def explicit_learners() -> dict[str, Inference]:
    """Build the learners that need no meta-training, on the CPU."""
    return {key: learner.build("cpu") for key, learner in EXPLICIT.items()}
