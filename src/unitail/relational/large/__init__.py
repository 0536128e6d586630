"""Supports of any number of rows and of many classes: answers without pairs of all rows."""
