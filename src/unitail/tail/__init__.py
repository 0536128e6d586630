"""Section 4 of the paper: TAIL, its settings and its network; what it is made of is in `nn`."""
