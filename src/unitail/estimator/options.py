"""The classifier's options, checked when they are used."""

import operator
from typing import Any, Protocol

from sklearn.utils import check_random_state

from unitail.configuration import choice, require
from unitail.devices import choose_device
from unitail.errors import InvalidConfig
from unitail.estimator.choices import choose_model, choose_precision
from unitail.estimator.fitted import Reading
from unitail.nn.visibility import Visibility


class Options(Protocol):
    """What the classifier's constructor stores."""

    model: Any
    visibility: Any
    class_shares: Any
    n_draws: Any
    device: Any
    chunk_size: Any
    max_support: Any
    precision: Any


def make_reading(options: Options, seed: int) -> Reading:
    """Check the options, and load the model if it is named by its folder."""
    visibility = choice(Visibility, options.visibility, "visibility")
    chunk_size = _count(options.chunk_size, "chunk_size", optional=True)
    if chunk_size is not None and not visibility.isolates_queries:
        raise InvalidConfig(
            "rows that see each other cannot be answered in chunks",
            got=f"chunk_size={chunk_size} with visibility='{visibility}'",
            allowed="chunk_size=None, or visibility='isolated'",
        )
    if options.class_shares is not None and visibility.isolates_queries:
        raise InvalidConfig(
            "known class shares tie the answers to rows together",
            got=f"class_shares with visibility='{visibility}'",
            allowed="class_shares=None, or visibility='joint'",
        )
    num_draws = _count(options.n_draws, "n_draws", optional=False)
    assert num_draws is not None
    return Reading(
        model=choose_model(options.model),
        device=choose_device(options.device),
        precision=choose_precision(options.precision),
        visibility=visibility,
        class_shares=options.class_shares,
        num_draws=num_draws,
        seed=seed,
        chunk_size=chunk_size,
        max_support=_count(options.max_support, "max_support", optional=True),
    )


def draw_seed(random_state: Any) -> int:  # noqa: ANN401 - as scikit-learn takes it
    """Return the seed of one fit."""
    # randint, since a RandomState may be shared with others and must move on
    return int(check_random_state(random_state).randint(2**31 - 1))


def _count(value: object, name: str, *, optional: bool) -> int | None:
    """Check a whole number of 1 or more, or None where that is allowed."""
    if value is None and optional:
        return None
    allowed = "1 or more, or None" if optional else "1 or more"
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    require(number >= 1, name, got=repr(value), allowed=allowed)
    return number
