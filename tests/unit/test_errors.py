import pickle

import pytest

from unitail import errors
from unitail.errors import (
    CannotSolve,
    InvalidConfig,
    MissingExtra,
    TooManyClasses,
    UnitailError,
    UserError,
)


def test_message_says_what_is_wrong_got_allowed_and_what_to_do() -> None:
    error = UserError("shots are too few", got=0, allowed="1 or more", remedy="Give one.")

    assert str(error) == "shots are too few: got 0; allowed: 1 or more. Give one."


def test_subclass_gives_its_usual_remedy() -> None:
    error = InvalidConfig("x is unknown", got=1, allowed="2")

    assert str(error).endswith("allowed: 2. Correct the value in the recipe or the call.")


def errors_and_warnings() -> list[type]:
    names = vars(errors).values()
    return [each for each in names if getattr(each, "__module__", "") == errors.__name__]


@pytest.mark.parametrize("kind", [each for each in errors_and_warnings() if isinstance(each, type)])
def test_every_error_has_the_one_root(kind: type) -> None:
    assert issubclass(kind, UserWarning if issubclass(kind, Warning) else UnitailError)


def test_user_errors_are_value_errors() -> None:
    with pytest.raises(ValueError, match="wrong: got 1"):
        raise UserError("wrong", got=1, allowed="2")


def test_too_many_classes_is_a_task_that_cannot_be_solved() -> None:
    error = TooManyClasses("too many classes", got=12, allowed="at most 10")

    assert isinstance(error, CannotSolve)
    assert "built for more classes" in str(error)


@pytest.mark.parametrize(
    "error", [InvalidConfig("x", got=1, allowed="2"), MissingExtra("ray", "scale", "no module")]
)
def test_errors_come_back_from_other_processes(error: UserError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))
    assert (again.wrong, again.got, again.allowed) == (error.wrong, error.got, error.allowed)
