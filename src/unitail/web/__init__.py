"""What all servers of this package share: access checks, size limits, headers for browsers."""
