"""What scripts of bench/ import: timing, rows of results, pages. Nothing here is a script."""
