"""`unitail studio`: a page on which items are named, sorted, looked at and corrected."""
