"""Section 4 of the paper: TAIL, one file for each box of its figure."""
