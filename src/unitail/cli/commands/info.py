"""`unitail info`: versions, device, weights, encoders and cache."""


def info() -> None:
    """Say what is installed, where the weights are and what the feature cache holds."""
    from unitail.cli.info import run

    run()
