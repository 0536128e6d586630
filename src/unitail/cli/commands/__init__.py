"""What can be typed: a file declares a command's options and calls one function, imported then.

Nothing here imports more than typer, so that `--help` answers at once.
"""
