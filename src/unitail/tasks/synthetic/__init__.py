"""Tasks drawn from known distributions."""
