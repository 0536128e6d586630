"""What is meant if nobody says otherwise, alike in Python, on the command line and in services."""

COVERAGE = 0.9
"""How often the set of an answer should hold the true label."""
TOP = 3
"""Classes that are named for each answer."""
