"""Whole ways from a user's files to answers: what the commands call."""
