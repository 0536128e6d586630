"""The default learner: relations between features, one state for each example and class."""
