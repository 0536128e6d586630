"""Defaults of predictions, shared by the Python API, the command line and the services."""

COVERAGE = 0.9
"""Probability with which a prediction set should hold the true label."""
TOP = 3
"""Number of classes that are listed for each answer."""
