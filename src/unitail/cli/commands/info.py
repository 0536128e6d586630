"""`unitail info`: show versions, devices, weights, encoders and the cache."""


def info() -> None:
    """Show installed versions, devices, models, encoders and the feature cache."""
    from unitail.cli.info import run

    run()
