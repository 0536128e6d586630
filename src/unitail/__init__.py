"""Few-shot classification in one forward pass: the public names of the package.

Names are loaded on first use, so importing the package is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:  # for type checkers and editors; a test compares it with the table below
    from unitail.banks.bank import FeatureBank as FeatureBank
    from unitail.banks.importer import import_bank as import_bank
    from unitail.banks.manifest import BankManifest as BankManifest
    from unitail.banks.manifest import FeatureType as FeatureType
    from unitail.banks.writer import BankWriter as BankWriter
    from unitail.baselines.linear_probe import LinearProbe as LinearProbe
    from unitail.baselines.proto_head import ProtoHead as ProtoHead
    from unitail.baselines.proto_head import PrototypeVariant as PrototypeVariant
    from unitail.client import Client as Client
    from unitail.client import Refused as Refused
    from unitail.encoders.encoder import Encoder as Encoder
    from unitail.encoders.encoder import Modality as Modality
    from unitail.encoders.registry import make_encoder as make_encoder
    from unitail.errors import BlankWarning as BlankWarning
    from unitail.errors import CannotExport as CannotExport
    from unitail.errors import CannotSolve as CannotSolve
    from unitail.errors import CannotWrite as CannotWrite
    from unitail.errors import ColumnWarning as ColumnWarning
    from unitail.errors import DrawMismatch as DrawMismatch
    from unitail.errors import InvalidBank as InvalidBank
    from unitail.errors import InvalidCheckpoint as InvalidCheckpoint
    from unitail.errors import InvalidConfig as InvalidConfig
    from unitail.errors import InvalidEpisode as InvalidEpisode
    from unitail.errors import InvalidInput as InvalidInput
    from unitail.errors import Leakage as Leakage
    from unitail.errors import MissingExtra as MissingExtra
    from unitail.errors import NonFiniteLoss as NonFiniteLoss
    from unitail.errors import TableSizeWarning as TableSizeWarning
    from unitail.errors import TooManyClasses as TooManyClasses
    from unitail.errors import TooManyExamples as TooManyExamples
    from unitail.errors import UnitailError as UnitailError
    from unitail.errors import UnknownEncoder as UnknownEncoder
    from unitail.errors import Unreadable as Unreadable
    from unitail.errors import UserError as UserError
    from unitail.errors import WeightWarning as WeightWarning
    from unitail.errors import WrongWidth as WrongWidth
    from unitail.estimator.classifier import TailClassifier as TailClassifier
    from unitail.estimator.cost import Plan as Plan
    from unitail.estimator.fitted import KeptExamples as KeptExamples
    from unitail.estimator.influence import Influence as Influence
    from unitail.estimator.suspicious_labels import SuspiciousLabel as SuspiciousLabel
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
    from unitail.learners.pretrained import load_default as load_default
    from unitail.learners.registry import preset as preset
    from unitail.nn.episode_model import Visibility as Visibility
    from unitail.randomness import stream as stream
    from unitail.relational.config import RelationalConfig as RelationalConfig
    from unitail.relational.model import Relational as Relational
    from unitail.tail.config import TailConfig as TailConfig
    from unitail.tail.model import Tail as Tail
    from unitail.tasks.arrays import ArrayTask as ArrayTask
    from unitail.tasks.synthetic.gaussian import GaussianTask as GaussianTask
    from unitail.tasks.synthetic.gaussian import GaussianTasks as GaussianTasks
    from unitail.training.recipe import read_recipe as read_recipe
    from unitail.training.trainer import Trainer as Trainer
    from unitail.validity_study.declared import declared_tasks as declared_tasks
    from unitail.validity_study.study import study_validity as study_validity

_HOMES = {
    "banks.bank": "FeatureBank",
    "banks.importer": "import_bank",
    "banks.manifest": "BankManifest FeatureType",
    "banks.writer": "BankWriter",
    "baselines.linear_probe": "LinearProbe",
    "baselines.proto_head": "ProtoHead PrototypeVariant",
    "client": "Client Refused",
    "encoders.encoder": "Encoder Modality",
    "encoders.registry": "make_encoder",
    "errors": (
        "BlankWarning CannotExport CannotSolve CannotWrite ColumnWarning DrawMismatch"
        " InvalidBank InvalidCheckpoint InvalidConfig InvalidEpisode InvalidInput Leakage"
        " MissingExtra NonFiniteLoss TableSizeWarning TooManyClasses TooManyExamples"
        " UnitailError UnknownEncoder Unreadable UserError WeightWarning WrongWidth"
    ),
    "estimator.classifier": "TailClassifier",
    "estimator.cost": "Plan",
    "estimator.fitted": "KeptExamples",
    "estimator.influence": "Influence",
    "estimator.suspicious_labels": "SuspiciousLabel",
    "evaluation.protocol": "EvaluationProtocol",
    "evaluation.score": "score_learner score_learners",
    "framework.curves": "learning_curve",
    "framework.episode": "Episode Query Support",
    "framework.validity": "universal_validity validity",
    "learners.checkpoint": "load_model save_model",
    "learners.in_context": "InContextLearner",
    "learners.pretrained": "load_default",
    "learners.registry": "preset",
    "nn.episode_model": "Visibility",
    "randomness": "stream",
    "relational.config": "RelationalConfig",
    "relational.model": "Relational",
    "tail.config": "TailConfig",
    "tail.model": "Tail",
    "tasks.arrays": "ArrayTask",
    "tasks.synthetic.gaussian": "GaussianTask GaussianTasks",
    "training.recipe": "read_recipe",
    "training.trainer": "Trainer",
    "validity_study.declared": "declared_tasks",
    "validity_study.study": "study_validity",
}
"""Maps modules under `unitail` to the public names defined in them."""
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = list(_HOME_OF)


def __getattr__(name: str) -> object:
    """Import a public name from its module on first use."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'unitail' has no attribute '{name}'")
    return getattr(import_module(f"unitail.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted([*_HOME_OF, "__version__"])
