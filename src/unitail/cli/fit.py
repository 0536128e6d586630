"""Run `unitail fit`."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from unitail.cli.console import (
    bar,
    print_cache_trouble,
    print_encoder,
    print_examples,
    print_lines,
    report_unreadable,
)
from unitail.encoders.cache import default_cache
from unitail.estimator.saving.folder import check_free
from unitail.inputs.items import ReadOptions
from unitail.inputs.read import check_columns, read_unlabelled
from unitail.wording import shown
from unitail.workflows.fit import ClassifierOptions, fit_files, read_examples


def run(
    examples_path: Path,
    folder: Path,
    *,
    also: Sequence[Path],
    pool: Sequence[Path],
    reading: ReadOptions,
    options: ClassifierOptions,
    use_cache: bool,
) -> None:
    """Read and encode the examples, fit the classifier, and save it."""
    check_free(folder)
    options.check_unfitted()
    check_columns(reading, examples_path, [*also, *pool])
    console = Console()
    examples = read_examples(examples_path, reading, also=also)
    unlabelled = read_unlabelled(pool, reading, like=examples) if pool else None
    pooled = "" if unlabelled is None else f", a pool of {len(unlabelled):,} without labels"
    print_examples(console, examples, pooled)
    cache = default_cache() if use_cache and examples.need_encoders else None
    with bar("encoding", len(examples) + len(unlabelled or ())) as on_progress:
        fitted = fit_files(examples, options, pool=unlabelled, cache=cache, on_progress=on_progress)
    print_encoder(console, fitted.encoder.name, fitted.num_cached, fitted.notes)
    print_lines(console, "Calibrating prediction sets by leaving examples out.")
    fitted.classifier.save(folder)
    print_lines(
        console,
        f"Saved in {shown(folder)}. To use it: unitail predict --model {shown(folder)} FILES",
    )
    print_cache_trouble(cache)
    report_unreadable(
        [f"{item.name}: {item.reason}" for item in fitted.unreadable],
        all_in="none of them was used",
    )
