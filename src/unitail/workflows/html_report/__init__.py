"""Answers as one HTML file: `page` writes it, `items` shows the items on it."""
