"""The classifier that practitioners use, by scikit-learn's conventions."""
