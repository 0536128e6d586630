"""Fitted classifiers as folders: rows as safetensors, the rest as JSON, a card; no pickle."""
