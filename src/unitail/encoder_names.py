"""Names of encoders: those that are used if none is named, and aliases of names."""

DEFAULTS = {"image": "efficientnet-lite0", "text": "minilm", "audio": "log-mel"}
"""The encoder of each modality that is used if none is named; they work without network."""

ALIASES = {"efflite0": "efficientnet-lite0"}
"""Other names of encoders in banks, recipes and suites, and those that `unitail encode` uses."""


def encoder_name(name: str) -> str:
    """Return the name under which an encoder is registered."""
    return ALIASES.get(name, name)
