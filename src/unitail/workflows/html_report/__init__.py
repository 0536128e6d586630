"""Reports of answers as one HTML file: `page` writes it, `previews` renders the items."""
