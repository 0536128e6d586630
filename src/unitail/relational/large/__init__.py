"""Supports with any number of rows or classes: answers without all pairs of rows."""
