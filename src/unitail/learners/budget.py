"""How much is worked on at once: the one place that bounds memory.

A model says how many numbers some work keeps in memory (`EpisodeModel.work`); what does not fit is
done in chunks. Chunks change speed and memory, not answers.
"""

from unitail.nn.episode_model import AnyModel

MAX_NUMBERS = 2**25
"""Numbers in memory at once: 256 MB in double precision."""
MAX_ROWS = 4096
"""Queries that are answered at once, however small the model: they take memory themselves."""
MAX_STATES = 2**21
"""Support rows times classes that are read at all: 2 to 6 GB with the shipped model."""


def queries_at_once(model: AnyModel, num_support: int, ways: int, *, episodes: int = 1) -> int:
    """Return how many isolated queries of each episode are answered together."""
    each = episodes * model.work(num_support, 1, ways)
    return max(1, min(MAX_ROWS, MAX_NUMBERS // each))


def episodes_at_once(model: AnyModel, num_support: int, num_query: int, ways: int) -> int:
    """Return how many episodes are read and answered together."""
    rows = num_support + num_query
    return max(1, MAX_NUMBERS // model.work(rows, rows, ways))
