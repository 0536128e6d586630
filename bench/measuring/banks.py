"""Banks and tables chosen by patterns."""

import argparse
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from unitail.banks.bank import FeatureBank, bank_matches, named_banks
from unitail.benchmark.suite_file import read_suite
from unitail.benchmark.suites import BenchTable, open_suite


def chosen_banks(
    parser: argparse.ArgumentParser, folder: Path, patterns: Sequence[str]
) -> dict[str, FeatureBank]:
    """Open the banks of a folder that match a pattern; exit with a message if none does."""
    paths = named_banks(folder)
    chosen = [name for name in paths if any(bank_matches(name, each) for each in patterns)]
    if not chosen:
        parser.error(f"no bank matches {' '.join(patterns)}")
    return {name: FeatureBank.open(paths[name]) for name in chosen}


def chosen_tables(
    parser: argparse.ArgumentParser, folder: Path, patterns: Sequence[str]
) -> list[BenchTable]:
    """List the tables of the suite "banks" that match a pattern; exit if none does."""
    tables = open_suite(read_suite("banks"), folder).tables
    chosen = [each for each in tables if any(fnmatch(each.name, one) for one in patterns)]
    if not chosen:
        parser.error(f"no bank of the suite matches {' '.join(patterns)}")
    return chosen
