"""Families of bad input, from which `bad_input.py` draws its cases."""
