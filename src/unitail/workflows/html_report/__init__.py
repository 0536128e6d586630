"""Answers as one HTML file: `page` writes it, `previews` shows the items on it."""
