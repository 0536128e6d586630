"""`unitail serve`: classifiers over HTTP."""
