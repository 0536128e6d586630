"""Learners: meta-trained models in context, the registry of all learners, and model folders."""
