"""Learners: a network in context, all of them by name, and their folders."""
