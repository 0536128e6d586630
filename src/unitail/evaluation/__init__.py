"""Measuring learners on episodes."""
