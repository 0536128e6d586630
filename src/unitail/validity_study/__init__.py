"""Practical universality: who is a valid learning algorithm on which of many declared tasks."""
