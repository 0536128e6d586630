"""Sections 2 and 3 of the paper as code: tasks, episodes, learners, learning curves, validity."""
