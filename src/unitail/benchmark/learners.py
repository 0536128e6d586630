"""The learners of a benchmark: those that need no training, and trained ones in run folders."""

import hashlib
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from unitail.errors import UserError
from unitail.files import readable_folder, sha256_of
from unitail.framework.learner import Inference
from unitail.learners.checkpoint import CONFIG_FILE, WEIGHTS_FILE, load_model
from unitail.learners.in_context import InContextLearner
from unitail.learners.known_shares import KnownShares
from unitail.learners.pretrained import FOLDER, fingerprint, load_default
from unitail.learners.registry import explicit_learners
from unitail.nn.visibility import Visibility

SHIPPED = {
    "unitail": Visibility.ISOLATED,
    "unitail_joint": Visibility.JOINT,
    "unitail_joint_balanced": Visibility.JOINT,
}
"""The model that comes with the package, by the names that results use."""
TOLD = ("unitail_joint_balanced",)
"""Those that are told that all classes occur equally often, be it true or not."""
MODEL_FOLDER = "model"
"""Where a run folder has its model."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A learner that takes part."""

    name: str
    learner: Inference
    fingerprint: str
    """What changes when the learner's answers might: results with another one are void."""
    run: Path | None = None
    """The run folder that it comes from."""

    @property
    def transductive(self) -> bool:
        """Whether an answer depends on what else is asked."""
        learner = self.learner
        if not isinstance(learner, InContextLearner):
            return isinstance(learner, KnownShares)
        return not (learner.visibility or learner.model.visibility).isolates_queries


def find_candidates(
    runs: Path, names: Sequence[str] = (), *, draws: int = 1, device: torch.device | str = "cpu"
) -> list[Candidate]:
    """Load the learners of these names, or all: explicit ones, and RUNS/*/model by their folders.

    Trained ones answer with the mean of `draws` draws.
    """
    explicit = explicit_learners()
    folders = {path.parent.name: path for path in sorted(runs.glob(f"*/{MODEL_FOLDER}"))}
    _check_names(names, explicit, folders, runs)
    chosen = names or (*explicit, *SHIPPED, *folders)
    return [_candidate(name, explicit, folders, draws, device) for name in dict.fromkeys(chosen)]


def _candidate(
    name: str,
    explicit: dict[str, Inference],
    folders: dict[str, Path],
    draws: int,
    device: torch.device | str,
) -> Candidate:
    if name in folders:
        return _trained(folders[name], draws, device)
    if name in SHIPPED:
        return _shipped(name, device)
    return _explicit(name, explicit)


def _shipped(name: str, device: torch.device | str) -> Candidate:
    visibility, told = SHIPPED[name], name in TOLD
    alone = InContextLearner(load_default(device), visibility=visibility)
    identity = f"{fingerprint()} {visibility}{' balanced' if told else ''}"
    return Candidate(name, KnownShares(alone) if told else alone, identity, FOLDER)


def explicit_fingerprint(learner: Inference) -> str:
    """Name a learner's class and arguments, and hash its file and those beside it, its parts."""
    kind = type(learner)
    try:
        files = sorted(Path(inspect.getfile(kind)).parent.glob("*.py"))
        source = hashlib.sha256(" ".join(map(sha256_of, files)).encode()).hexdigest()
    except (OSError, TypeError):  # a class from a notebook has no file
        source = "no file"
    arguments = ", ".join(f"{name}={value!r}" for name, value in sorted(vars(learner).items()))
    return f"{kind.__module__}.{kind.__qualname__}({arguments}) {source}"


def _explicit(name: str, learners: dict[str, Inference]) -> Candidate:
    return Candidate(name, learners[name], explicit_fingerprint(learners[name]))


def _trained(folder: Path, draws: int, device: torch.device | str) -> Candidate:
    model = load_model(folder).to(device).eval()
    where = readable_folder(folder)
    hashes = " ".join(sha256_of(where / name) for name in (CONFIG_FILE, WEIGHTS_FILE))
    learner = InContextLearner(model, num_draws=draws)
    run = folder.parent
    return Candidate(run.name, learner, f"{hashes} draws={draws}", run)


def _check_names(
    names: Sequence[str], explicit: dict[str, Inference], folders: dict[str, Path], runs: Path
) -> None:
    """Refuse names of no learner, and runs with the name of another learner."""
    own = [*explicit, *SHIPPED]
    both = sorted(set(own) & set(folders))
    if both:
        raise UserError(
            f"a run in {runs} has the name of another learner",
            got=", ".join(both),
            allowed="other names than " + ", ".join(own),
            remedy="Rename the run folder.",
        )
    unknown = [name for name in names if name not in own and name not in folders]
    if unknown:
        raise UserError(
            "unknown learner",
            got=", ".join(unknown),
            allowed=", ".join([*own, *folders]) + f" (trained ones are in {runs})",
        )
