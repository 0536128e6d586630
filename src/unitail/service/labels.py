"""Labels of new examples: checked, and brought to the kind of the classifier's own labels."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.service.limits import MAX_LABEL
from unitail.web.replies import Refusal
from unitail.wording import excerpt, is_utf8, some

MAX_NAMED = 10
"""Largest number of classes named in a refusal."""
EXACT_FLOATS = (np.dtype(np.float64), -(2**53), 2**53)
"""The dtype of whole numbers that are floats, and the range that it keeps exactly."""
WIDEST = {
    "i": (np.dtype(np.int64), -(2**63), 2**63 - 1),
    "u": (np.dtype(np.uint64), 0, 2**64 - 1),
}
"""The same for integers, by the kind of their dtype."""
KINDS = {bool: "true or false", str: "texts"}
"""Kinds of labels by the type of a class; all others are numbers."""


def new_labels(classes: NDArray[Any], labels: Sequence[Any]) -> NDArray[Any] | list[Any]:
    """Return labels in the dtype of the known classes; refuse those of another kind.

    A number keeps its class in whatever form it is written: 1.0 is the class 1 of whole numbers.
    """
    kind = KINDS.get(type(classes.tolist()[0]), "whole numbers")
    for place, label in enumerate(labels):
        if isinstance(label, str):
            _check_text(place, label)
        if KINDS.get(type(label), "whole numbers") != kind:
            raise _refused(place, _brief(label), f"{kind}, as the labels of this classifier")
    return list(labels) if kind in KINDS.values() else _whole_numbers(classes.dtype, labels)


def label_of(classes: NDArray[Any], text: str) -> Any:  # noqa: ANN401 - a label
    """Return the label that a text stands for, where labels can only be written as texts.

    That is the known class with this name; otherwise a new whole number, if classes are numbers;
    otherwise the text itself.
    """
    known = classes.tolist()
    for label in known:
        if text in names_of(label):
            return label
    is_number = not isinstance(known[0], bool | str)
    if is_number and len(text) < MAX_LABEL and text.removeprefix("-").isdecimal():
        return int(text)
    return text


def places_of(classes: NDArray[Any], labels: NDArray[Any], name: str) -> NDArray[np.int64]:
    """Return the places of the examples of the class with this name."""
    for label in classes.tolist():
        if name in names_of(label):
            return np.flatnonzero(labels == label)
    raise Refusal(
        404,
        "there is no such class",
        got=_brief(name),
        allowed=some_classes(classes.tolist()),
    )


def some_classes(labels: Iterable[Any]) -> str:
    """Return the first few class names, each shortened, for messages."""
    return some((excerpt(str(label), 40) for label in labels), MAX_NAMED)


def names_of(label: object) -> tuple[str, ...]:
    """Return how a class may be written in an address or a form."""
    if isinstance(label, bool):
        return str(label), str(label).lower()
    if isinstance(label, float) and label.is_integer():
        return str(label), str(int(label))
    return (str(label),)


def _check_text(place: int, label: str) -> None:
    if len(label) > MAX_LABEL:
        raise _refused(place, f"{len(label):,} characters", f"at most {MAX_LABEL:,} characters")
    if "\0" in label or not is_utf8(label):
        # numpy drops the first at the end of a label, and no reply can hold the others.
        raise _refused(place, _brief(label), "characters that UTF-8 can encode, without NUL")


def _whole_numbers(dtype: np.dtype[Any], labels: Sequence[Any]) -> NDArray[Any]:
    """Return numbers in the classifier's kind of dtype, the widest, so that all are kept exactly.

    scikit-learn takes other numbers for the targets of a regression.
    """
    widest, low, high = WIDEST.get(dtype.kind, EXACT_FLOATS)
    for place, label in enumerate(labels):
        is_whole = isinstance(label, int) or float(label).is_integer()
        if not (is_whole and low <= label <= high):
            raise _refused(place, _brief(label), f"whole numbers from {low} to {high}")
    return np.array([int(label) for label in labels], dtype=widest)


def _brief(label: object) -> str:
    """Return the beginning of a label as Python writes it; a number may have many digits."""
    try:
        return excerpt(repr(label[:60] if isinstance(label, str) else label), 60)
    except ValueError:  # Python writes no integers of thousands of digits
        return "a number of thousands of digits"


def _refused(place: int, got: str, allowed: str) -> Refusal:
    return Refusal(
        422,
        f"label {place} (the first is 0) cannot be a label of this classifier",
        got=got,
        allowed=allowed,
    )
