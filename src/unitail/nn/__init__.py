"""Network blocks shared by several learners."""
