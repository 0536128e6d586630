"""The default learner: relations between features, and a state for each example and class."""
