"""All learners over suites of feature banks: run, compare, report."""
