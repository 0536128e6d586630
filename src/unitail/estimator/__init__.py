"""TailClassifier, the scikit-learn classifier, and what it is built from."""
