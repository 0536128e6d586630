"""Episode sources: arrays, feature banks and synthetic tasks."""
