"""The commands and their options: each file declares one command and calls one function.

That function is imported only when the command runs: nothing here imports more than typer, which
keeps `--help` fast.
"""
