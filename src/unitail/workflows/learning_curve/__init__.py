"""Learning curves on a user's own data: accuracy against the number of labels."""
