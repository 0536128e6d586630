"""X and y as users give them, where scikit-learn would change them silently or fail obscurely."""

from numbers import Number
from typing import Any

import numpy as np

from unitail.errors import InvalidEpisode, InvalidInput
from unitail.missing_columns import list_columns
from unitail.wording import numbered, some

NO_NUMBERS = ("could not convert string", "could not be promoted")
"""How numpy says that something is neither a number nor like one: texts, dates."""


def plain_rows(rows: Any) -> Any:  # noqa: ANN401 - whatever users give
    """Return vectors with NaN for what a masked array hides, which others would show again."""
    if isinstance(rows, np.ma.MaskedArray):
        return np.ma.filled(rows.astype(np.float64), np.nan)
    return rows


def no_numbers(rows: Any, error: Exception) -> InvalidInput | None:  # noqa: ANN401
    """Say which error means that X needs an encoder; None for any other."""
    if not any(words in str(error) for words in NO_NUMBERS):
        return None
    columns = rows.dtypes.items() if hasattr(rows, "dtypes") else ()
    names = [name for name, kind in columns if kind.kind not in "biuf"]
    return InvalidInput(
        "X holds what is no number",
        got=f"columns {list_columns(names)}" if names else str(error).partition("\n")[0],
        allowed="numbers; with an encoder, tables of texts, categories and dates, too",
        remedy="Give a DataFrame to TailClassifier(encoder='auto').",
    )


def plain_labels(labels: Any) -> Any:  # noqa: ANN401 - whatever users give
    """Return labels, those of pandas' own dtypes as numpy has them; refuse what is no label.

    Others make floats of integers and booleans that may be missing, and strings of numbers that
    stand beside strings.
    """
    dtype = getattr(labels, "dtype", None)
    if getattr(labels, "ndim", 1) != 1 or (isinstance(dtype, np.dtype) and dtype.kind not in "Of"):
        return labels
    given = labels.tolist() if hasattr(labels, "tolist") else labels
    if not isinstance(given, list | tuple):
        return labels
    missing = [place for place, label in enumerate(given) if _is_missing(label)]
    if missing:
        raise InvalidEpisode(
            "there are rows without a label",
            got=f"{given[missing[0]]} in {numbered(len(missing), 'row')} ({some(missing)})",
            allowed="a label for each row",
            remedy="Leave them out of X and y; `fit(X, y, pool=...)` reads rows without a label.",
        )
    _check_kinds(given)
    is_of_pandas = hasattr(labels, "isna") and not isinstance(dtype, np.dtype)
    return np.array(given) if is_of_pandas else labels


def _check_kinds(labels: list[Any] | tuple[Any, ...]) -> None:
    kinds = sorted({_kind_of(label) for label in labels})
    if len(kinds) > 1 or not set(kinds) <= {"booleans", "numbers", "sequences", "strings"}:
        raise InvalidEpisode(
            "the labels are not of one kind that can be sorted",
            got=" and ".join(kinds),
            allowed="strings, numbers or booleans",
            remedy="Write them as strings: [str(label) for label in y].",
        )


def _kind_of(label: object) -> str:
    if isinstance(label, bool | np.bool_):
        return "booleans"
    if isinstance(label, str):
        return "strings"
    if isinstance(label, Number):
        return "numbers"
    is_sequence = isinstance(label, list | tuple | np.ndarray)
    return "sequences" if is_sequence else f"{type(label).__name__} objects"


def _is_missing(label: object) -> bool:
    """Tell whether it is None, a NaN, or one of pandas, of which NA cannot be compared."""
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, float | np.floating) and bool(label != label)
