"""Benchmark learners on suites of feature banks: run, compare, report."""
