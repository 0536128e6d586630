"""Classifiers and models for programs without Python."""
