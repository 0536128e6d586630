"""Data sets from their original files: a catalogue, and loaders for the usual file layouts."""
