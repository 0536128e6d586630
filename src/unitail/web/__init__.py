"""What every server of this package stands behind: who may ask, how much, what browsers may do."""
