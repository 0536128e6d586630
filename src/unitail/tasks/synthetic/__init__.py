"""Tasks drawn from known laws."""
