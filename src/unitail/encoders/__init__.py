"""Frozen encoders: files and objects of any modality to feature vectors."""
