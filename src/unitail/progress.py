"""How long work tells how far it is."""

from collections.abc import Callable

OnProgress = Callable[[int, int], None]
"""Called with how many are done, and of how many."""
