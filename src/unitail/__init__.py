"""Universal few-shot learning in one forward pass.

The public names, loaded when first used so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unitail.banks.bank import FeatureBank as FeatureBank
    from unitail.banks.importer import import_bank as import_bank
    from unitail.banks.writer import BankWriter as BankWriter
    from unitail.baselines.linear_probe import LinearProbe as LinearProbe
    from unitail.baselines.proto_head import ProtoHead as ProtoHead
    from unitail.baselines.proto_head import PrototypeVariant as PrototypeVariant
    from unitail.estimator.classifier import TailClassifier as TailClassifier
    from unitail.evaluation.protocol import EvaluationProtocol as EvaluationProtocol
    from unitail.evaluation.score import score_learner as score_learner
    from unitail.evaluation.score import score_learners as score_learners
    from unitail.framework.curves import learning_curve as learning_curve
    from unitail.framework.episode import Episode as Episode
    from unitail.framework.episode import Query as Query
    from unitail.framework.episode import Support as Support
    from unitail.framework.validity import universal_validity as universal_validity
    from unitail.framework.validity import validity as validity
    from unitail.learners.checkpoint import load_model as load_model
    from unitail.learners.checkpoint import save_model as save_model
    from unitail.learners.in_context import InContextLearner as InContextLearner
    from unitail.nn.visibility import Visibility as Visibility
    from unitail.randomness import stream as stream
    from unitail.tail.config import TailConfig as TailConfig
    from unitail.tail.config import preset as preset
    from unitail.tail.model import Tail as Tail
    from unitail.tasks.arrays import ArrayTask as ArrayTask
    from unitail.tasks.synthetic.gaussian import GaussianTask as GaussianTask
    from unitail.tasks.synthetic.gaussian import GaussianTasks as GaussianTasks
    from unitail.training.recipe import read_recipe as read_recipe
    from unitail.training.trainer import Trainer as Trainer

__version__ = "0.1.0"

_HOMES = {
    "ArrayTask": "tasks.arrays",
    "BankWriter": "banks.writer",
    "Episode": "framework.episode",
    "EvaluationProtocol": "evaluation.protocol",
    "FeatureBank": "banks.bank",
    "GaussianTask": "tasks.synthetic.gaussian",
    "GaussianTasks": "tasks.synthetic.gaussian",
    "LinearProbe": "baselines.linear_probe",
    "ProtoHead": "baselines.proto_head",
    "PrototypeVariant": "baselines.proto_head",
    "Query": "framework.episode",
    "Support": "framework.episode",
    "Tail": "tail.model",
    "TailClassifier": "estimator.classifier",
    "TailConfig": "tail.config",
    "InContextLearner": "learners.in_context",
    "Trainer": "training.trainer",
    "Visibility": "nn.visibility",
    "score_learner": "evaluation.score",
    "score_learners": "evaluation.score",
    "import_bank": "banks.importer",
    "learning_curve": "framework.curves",
    "load_model": "learners.checkpoint",
    "preset": "tail.config",
    "read_recipe": "training.recipe",
    "save_model": "learners.checkpoint",
    "stream": "randomness",
    "universal_validity": "framework.validity",
    "validity": "framework.validity",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    """Load a public name from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module 'unitail' has no attribute '{name}'")
    return getattr(import_module(f"unitail.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted([*_HOMES, "__version__"])
