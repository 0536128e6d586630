"""How accuracy grows with the labels of a user's own data."""
