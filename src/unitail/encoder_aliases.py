"""One encoder, one name: other names that banks, recipes and suites have for it."""

ALIASES = {"efflite0": "efficientnet-lite0"}
"""Other names of encoders, and what `unitail encode` calls them."""


def encoder_name(name: str) -> str:
    """Return the name under which an encoder is registered."""
    return ALIASES.get(name, name)
