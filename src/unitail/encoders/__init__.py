"""Frozen encoders from files and objects of any modality to feature vectors."""
