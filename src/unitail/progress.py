"""The type of progress callbacks."""

from collections.abc import Callable

OnProgress = Callable[[int, int], None]
"""Called with the number of items done, and the total."""
