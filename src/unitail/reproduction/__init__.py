"""Reproduce the paper's tables from the available data, next to the paper's numbers."""
