"""The error hierarchy, with errors that the caller can fix below `UserError`; warnings; checks.

Every `UserError` states what is wrong, what was given, what is allowed and how to fix it.
"""

import enum
import inspect
import warnings
from importlib import import_module
from typing import Any, TypeVar

Choice = TypeVar("Choice", bound=enum.StrEnum)
PACKAGE = __name__.partition(".")[0]


class UnitailError(Exception):
    """Base class of all errors that this package raises on purpose."""


class ColumnWarning(UserWarning):
    """A column of a table is not used, or not as the user may expect."""


class BlankWarning(UserWarning):
    """A query is blank: an empty text, or missing."""


class TableSizeWarning(UserWarning):
    """A table has so many labelled rows that another method is likely to be better."""


class WeightWarning(UserWarning):
    """Weights of rows have to be rounded, or a weight is for a class without rows."""


class UserError(UnitailError, ValueError):
    """An error that the caller can fix; the command line exits with status 2.

    Each subclass has a default `remedy`; a call may give a more precise one.
    """

    remedy = "Correct the argument and call again."

    def __init__(self, wrong: str, *, got: object, allowed: str, remedy: str | None = None) -> None:
        super().__init__(f"{wrong}: got {got}; allowed: {allowed}. {remedy or self.remedy}")
        self.wrong, self.got, self.allowed = wrong, got, allowed

    def __reduce__(self) -> tuple[object, ...]:
        """Support pickling (between processes) despite keyword-only arguments."""
        return _restored, (type(self), self.args, vars(self))


class InvalidEpisode(UserError):
    """Support and query do not form a valid episode."""

    remedy = "Correct the arrays before building the episode."


class InvalidConfig(UserError):
    """A configuration value is unknown, of the wrong type or out of range."""

    remedy = "Correct the value in the recipe or the call."


class DrawMismatch(UserError):
    """A draw was made for an episode of another shape."""

    remedy = "Make the draw for this support with `model.draw(support, generator)`."


class InvalidCheckpoint(UserError):
    """A folder does not hold a model that can be loaded."""

    remedy = "Save the model again with `save_model`, or name another folder."


class InvalidBank(UserError):
    """A folder does not hold a readable feature bank, or cannot hold a new one."""

    remedy = "Make the bank again, or name another folder."


class CannotWrite(UserError):
    """Something could not be written; what was there before is unchanged."""

    remedy = "Free some disk space or name another folder; what was saved before is intact."


class CannotExport(UserError):
    """The model cannot be written as ONNX, or the file would give other answers."""

    remedy = "Export another model; the default one can be exported."


class MissingExtra(UserError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str, reason: str) -> None:
        super().__init__(
            f"{package} is not installed",
            got=reason,
            allowed=f"the packages of the extra '{extra}'",
            remedy=f"Run `pip install 'unitail[{extra}]'`.",
        )


class Unreadable(UserError):
    """An item (a file, an image, a text, a sound) cannot be decoded; commands list and skip it."""

    remedy = "Fix or remove the item."


class UnknownEncoder(UserError):
    """There is no encoder of that name on this machine, or it does not take such items."""

    remedy = "Name another encoder, or the folder of a model that was downloaded before."


class InvalidInput(UserError):
    """The given examples or queries do not hold what is needed."""

    remedy = "Name another folder or table."


class NonFiniteLoss(UserError):
    """The training loss became NaN or infinite; the last good checkpoint is kept."""

    remedy = (
        "Train again with a lower learning rate or clip_norm, in another folder; the checkpoints "
        "made before are intact."
    )


class Leakage(UserError):
    """Test data were used in training."""

    remedy = "Leave the data out of training or out of the test."


class CannotSolve(UserError):
    """The learner cannot solve the task, though the task is valid.

    Reports show such a task as "cannot" instead of stopping.
    """

    remedy = "Choose a learner that accepts such tasks."


class TooManyClasses(CannotSolve):
    """The task has more classes than the model has slots."""

    remedy = (
        "Use a model that was built for more classes (TAIL's preset 'paper-large' has 256 slots), "
        "or split the task into fewer classes."
    )


class WrongWidth(CannotSolve):
    """The task's features are not as wide as those that the model was trained on."""

    remedy = "Use a learner that accepts any width (TAIL does), or the encoder it was trained with."


class TooManyExamples(CannotSolve):
    """The support is longer than the sequences that the model was built for."""

    remedy = "Give fewer examples, or use a learner without positions (TAIL has none)."


def require(condition: bool, name: str, *, got: object, allowed: str) -> None:
    """Raise `InvalidConfig` about the value called `name` unless the condition holds."""
    if not condition:
        raise InvalidConfig(f"{name} is out of range", got=got, allowed=allowed)


def choice(kind: type[Choice], value: object, name: str) -> Choice:
    """Return the member of the enumeration `kind` that `value` names."""
    allowed = [member.value for member in kind]
    if value not in allowed:
        raise InvalidConfig(f"{name} is unknown", got=value, allowed=", ".join(allowed))
    return kind(value)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn about the line of the user's code that called this package, however deep the call."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def optional(module: str, *, extra: str) -> Any:  # noqa: ANN401 - optional packages have no types here
    """Import a module of an extra; if it is missing, the error says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(module.split(".")[0], extra, str(error)) from error


def _restored(
    kind: type[UserError], args: tuple[str, ...], attributes: dict[str, object]
) -> UserError:
    error = kind.__new__(kind, *args)
    vars(error).update(attributes)
    return error
