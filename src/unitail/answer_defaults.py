"""Defaults and thresholds of answers, for Python, the command line and the services."""

COVERAGE = 0.9
"""Probability with which a prediction set should hold the true label."""
TOP = 3
"""Number of classes that are listed for each answer."""
CHUNK_ROWS = 256
"""Rows per chunk of a job: a multiple of an encoder's batch size, and some seconds of work."""
SPLITS = 200
"""Random splits for each number of examples in a learning curve."""
DOUBTFUL = 0.8
"""Answers of a lower probability are doubtful: one in five or more of those just below is wrong."""
NOVEL = 0.95
"""Items of this novelty or more are marked: about one in twenty items of the known classes is."""
