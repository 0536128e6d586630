"""Measure learners on episodes."""
