"""`unitail serve`: classifiers behind HTTP."""
