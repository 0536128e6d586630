"""The learners of a benchmark: explicit, shipped, and trained ones in run folders."""

import ast
import hashlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from unitail.errors import UserError
from unitail.files import sha256_of
from unitail.framework.learner import Inference, Paradigm
from unitail.learners.checkpoint import load_model
from unitail.learners.class_shares import EqualShares
from unitail.learners.fingerprints import model_stamp
from unitail.learners.in_context import InContextLearner
from unitail.learners.pretrained import shipped_folder
from unitail.learners.registry import LEARNERS, SHIPPED, explicit_learners
from unitail.own_code import is_own, own_object
from unitail.training.run_folder import MODEL_FOLDER, RunRecord


@dataclass(frozen=True, eq=False)
class BenchLearner:
    """A learner in a benchmark."""

    name: str
    learner: Inference
    fingerprint: str
    """Changes whenever the learner's answers might; results under another one are void."""
    run: Path | None = None
    """Folder of the run that trained it; None if it needs no training."""

    def record(self) -> RunRecord | None:
        """Return the record of its training; None if there was none or it is unknown."""
        return None if self.run is None else RunRecord.read(self.run)

    @property
    def paradigm(self) -> Paradigm:
        """The learner's own `paradigm`; explicit for user code that does not declare one."""
        return getattr(self.learner, "paradigm", Paradigm.EXPLICIT)

    @property
    def transductive(self) -> bool:
        """Whether an answer depends on the other queries."""
        learner = self.learner
        if not isinstance(learner, InContextLearner):
            return isinstance(learner, EqualShares)
        return not (learner.visibility or learner.model.visibility).isolates_queries


def load_learners(
    runs: Path,
    names: Sequence[str] = (),
    *,
    own: bool = False,
    draws: int = 1,
    device: torch.device | str = "cpu",
) -> list[BenchLearner]:
    """Load the named learners, or all: the registered ones and the runs RUNS/*/model.

    Trained ones answer with the mean of `draws` draws. With `own`, FILE.py:NAME runs the user's
    file and loads its learner NAME; use it only for names that the user typed.
    """
    built: dict[str, Callable[[], BenchLearner]] = {
        name: partial(_explicit, name, learner) for name, learner in explicit_learners().items()
    }
    built |= {name: partial(_shipped, name, device) for name in SHIPPED}
    trained: dict[str, Callable[[], BenchLearner]] = {
        path.parent.name: partial(load_trained, path, draws=draws, device=device)
        for path in sorted(runs.glob(f"*/{MODEL_FOLDER}"))
    }
    typed = [name for name in names if own and is_own(name) and name not in trained]
    _check_names(names, built, trained, typed, runs)
    loaders = built | trained | {name: partial(_own, name) for name in typed}
    return [loaders[name]() for name in dict.fromkeys(names or loaders)]


def load_trained(
    folder: Path, *, draws: int = 1, device: torch.device | str = "cpu"
) -> BenchLearner:
    """Load a run's model, RUN/model, as a learner with the run's name."""
    model = load_model(folder).to(device).eval()
    learner = InContextLearner(model, num_draws=draws)
    run = folder.parent
    return BenchLearner(run.name, learner, f"{model_stamp(folder)} draws={draws}", run)


def missing_learners(names: Iterable[str], runs: Path) -> list[str]:
    """Return the names without a learner here: runs that have not been trained yet."""
    trained = {path.parent.name for path in runs.glob(f"*/{MODEL_FOLDER}")}
    return [name for name in names if name not in {*LEARNERS, *trained}]


def explicit_fingerprint(learner: Inference) -> str:
    """Return a learner's class and arguments, and a hash of its file and the modules it uses."""
    kind = type(learner)
    try:
        source = _source_hash(Path(inspect.getfile(kind)))
    except (OSError, TypeError):  # a class from a notebook has no file
        source = "no file"
    return f"{kind.__module__}.{kind.__qualname__}({_arguments(learner)}) {source}"


def _arguments(learner: Inference) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in sorted(vars(learner).items()))


def _source_hash(path: Path) -> str:
    """Hash a file and the modules of its folder that it uses."""
    files = sorted(_used_beside(path))
    return hashlib.sha256(" ".join(map(sha256_of, files)).encode()).hexdigest()


def _used_beside(path: Path) -> set[Path]:
    """Return a file and the files of its folder that it imports, directly or indirectly."""
    package = path.with_name("__init__.py")
    used, waiting = set[Path](), [path, *([package] if package.is_file() else [])]
    while waiting:
        file = waiting.pop()
        used.add(file)
        try:
            nodes = ast.walk(ast.parse(file.read_bytes()))
        except SyntaxError:  # shares the name of an imported module, but is not Python code
            continue
        for node in nodes:
            named = node.names if isinstance(node, ast.Import | ast.ImportFrom) else []
            modules = [each.name for each in named]
            if isinstance(node, ast.ImportFrom):
                modules.append(node.module or "")
            siblings = [path.with_name(f"{name.rpartition('.')[2]}.py") for name in modules]
            waiting += [each for each in siblings if each.is_file() and each not in used]
    return used


def _explicit(name: str, learner: Inference) -> BenchLearner:
    return BenchLearner(name, learner, explicit_fingerprint(learner))


def _own(name: str) -> BenchLearner:
    """Load a learner from user code; its answers may change whenever its files do."""
    learner = own_object(name, "infer")
    path, _, inside = name.rpartition(":")
    stamp = f"{inside}({_arguments(learner)}) {_source_hash(Path(path))}"
    return BenchLearner(inside, learner, stamp)


def _shipped(name: str, device: torch.device | str) -> BenchLearner:
    chosen = SHIPPED[name]
    folder = shipped_folder(chosen.model)
    learner = chosen.build(device)  # which checks the files
    return BenchLearner(name, learner, f"{model_stamp(folder)} {chosen.variant}", folder)


def _check_names(
    names: Iterable[str],
    built: Iterable[str],
    trained: Iterable[str],
    typed: Iterable[str],
    runs: Path,
) -> None:
    """Raise for unknown names, and for runs or user code with the name of another learner."""
    both = sorted(set(built) & set(trained))
    if both:
        raise UserError(
            f"a run in {runs} has the name of another learner",
            got=", ".join(both),
            allowed="other names than " + ", ".join(built),
            remedy="Rename the run folder.",
        )
    known = [*built, *trained]
    written = [name.rpartition(":")[2] for name in typed]
    twice = sorted({name for name in written if name in known or written.count(name) > 1})
    if twice:
        raise UserError(
            "one of your learners has another learner's name",
            got=", ".join(twice),
            allowed="names that no other learner has",
            remedy="Rename it in its file.",
        )
    unknown = [name for name in names if name not in {*known, *typed}]
    if unknown:
        raise UserError(
            "unknown learner",
            got=", ".join(unknown),
            allowed=", ".join(known) + f" (trained ones are in {runs}), or FILE.py:NAME"
            " after --learner",
        )
