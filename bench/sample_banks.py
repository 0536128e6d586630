"""Sample coded banks to a smaller size: some rows of each class.

From every training set of the recipes, and with `--testing` from every testing set, it takes all
classes (at most `--classes` of a testing set) and the same number of rows of each: `--rows`, fewer
if the set would have more than `--set-rows`, but at least `--fewest`. The choice depends only on
the seed and the name of the set, so encoders that hold the same items in the same order keep the
same ones. The files keep their coding; `unitail bank import` turns them into banks.

    python bench/sample_banks.py CODED SAMPLE --recipes recipes/ablations --testing
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from measure_runs import GROUP_OF
from numpy.typing import NDArray

from unitail.banks.bank import bank_matches
from unitail.randomness import stream
from unitail.training.recipe import BankChoice, read_recipe

MEBIBYTE = 2**20


def patterns(folders: Sequence[Path]) -> set[str]:
    """Return the banks the recipes train on, ENCODER/DATASET; exit if one is a testing set."""
    recipes = [read_recipe(path) for folder in folders for path in sorted(folder.glob("*.toml"))]
    choices = [source for recipe in recipes for source in recipe.sources]
    banks = {name for each in choices if isinstance(each, BankChoice) for name in each.banks}
    tested = sorted(name for name in banks if name.split("/")[1] in GROUP_OF)
    if tested:
        raise SystemExit(f"recipes may not train on testing sets: {', '.join(tested)}")
    return banks


def wanted(args: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    """Yield the files to sample, by ENCODER/DATASET."""
    trained = patterns(args.recipes)
    for path in sorted(args.coded.glob("*/*.npz")):
        name = f"{path.parent.name}/{path.stem}"
        testing = args.testing and path.stem in GROUP_OF
        if testing or any(bank_matches(name, pattern) for pattern in trained):
            yield name, path


def choose(
    labels: NDArray[np.int64], data_set: str, args: argparse.Namespace
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Choose classes and rows of each, both in their original order."""
    generator = stream(args.seed, "sample of banks", data_set)
    classes = np.unique(labels)
    if data_set in GROUP_OF and len(classes) > args.classes:
        picked = torch.randperm(len(classes), generator=generator)[: args.classes]
        classes = classes[np.sort(picked.numpy())]
    count = max(args.fewest, min(args.rows, args.set_rows // len(classes)))
    rows = []
    for each in classes:
        members = np.flatnonzero(labels == each)
        rows.append(members[torch.randperm(len(members), generator=generator)[:count].numpy()])
    return classes, np.sort(np.concatenate(rows))


def sample(path: Path, target: Path, args: argparse.Namespace) -> int:
    """Write the sample of a file; return its size in bytes."""
    with np.load(path) as bank:
        classes, rows = choose(bank["y"].astype(np.int64), path.stem, args)
        target.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(
            target,
            q=bank["q"][rows],
            scale=bank["scale"],
            code=bank["code"],
            y=np.searchsorted(classes, bank["y"][rows]),
            classes=bank["classes"][classes],
        )
    return target.stat().st_size


def main() -> None:
    """Sample all files; exit if the size limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("coded", type=Path, help="8-bit coded banks, ENCODER/DATASET.npz")
    parser.add_argument("out", type=Path)
    parser.add_argument("--recipes", type=Path, nargs="*", default=[], help="folders of recipes")
    parser.add_argument("--testing", action="store_true", help="all testing sets too")
    parser.add_argument("--rows", type=int, default=40, help="of a class, at most")
    parser.add_argument("--set-rows", type=int, default=1600, help="of a set, if it has few")
    parser.add_argument("--fewest", type=int, default=16, help="of a class, whatever its set has")
    parser.add_argument("--classes", type=int, default=100, help="of a testing set, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mebibytes", type=float, help="stop beyond this size")
    args = parser.parse_args()
    total = 0
    for name, path in wanted(args):
        total += sample(path, args.out / f"{name}.npz", args)
        if args.mebibytes is not None and total > args.mebibytes * MEBIBYTE:
            raise SystemExit(f"more than {args.mebibytes:g} MiB at {name}: ask for fewer rows")
    print(f"{total / MEBIBYTE:.1f} MiB in {args.out}")


if __name__ == "__main__":
    main()
