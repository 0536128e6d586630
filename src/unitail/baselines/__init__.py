"""The learners that the paper compares TAIL with, one file and one citation each."""
