"""Aliases of encoder names in banks, recipes and suites."""

ALIASES = {"efflite0": "efficientnet-lite0"}
"""Maps other names of encoders to those that `unitail encode` uses."""


def encoder_name(name: str) -> str:
    """Return the name under which an encoder is registered."""
    return ALIASES.get(name, name)
