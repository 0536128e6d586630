"""Feature banks: encoded data sets on disk, their splits and their checks."""
