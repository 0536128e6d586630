"""Run `unitail fit`."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from unitail.cli.console import bar, print_cache_trouble, print_lines, report_unreadable
from unitail.encoders.cache import default_cache
from unitail.estimator.saving.folder import check_free
from unitail.inputs.items import ReadOptions
from unitail.inputs.read import read_labelled, read_pool
from unitail.wording import numbered, shown
from unitail.workflows.fit import fit_files


def run(
    path: Path,
    folder: Path,
    *,
    also: Sequence[Path],
    pool: Sequence[Path],
    options: ReadOptions,
    encoder: str | None,
    model: str,
    use_cache: bool,
    device: str,
) -> None:
    """Read and encode the examples, fit the classifier, and save it."""
    check_free(folder)
    console = Console()
    examples = read_labelled(path, options, also=also)
    unlabelled = read_pool(pool, examples, options)
    classes = numbered(len(examples.classes), "class")
    print_lines(console, f"{examples.modality}: {len(examples):,} examples of {classes}.")
    if unlabelled is not None:
        print_lines(console, f"Pool: {len(unlabelled):,} without labels.")
    print_lines(console, *(f"Guessed: {note}." for note in examples.guesses))
    print_lines(console, *(f"Skipped: {note}." for note in examples.ignored))
    cache = default_cache() if use_cache and examples.need_encoders else None
    with bar("encoding", len(examples) + len(unlabelled or ())) as on_progress:
        fitted = fit_files(
            examples,
            encoder=encoder,
            model=model,
            pool=unlabelled,
            cache=cache,
            device=device,
            on_progress=on_progress,
        )
    cached = f"; {fitted.num_cached:,} from the cache" if fitted.num_cached else ""
    print_lines(console, f"Encoder: {fitted.encoder.name}{cached}.")
    print_lines(console, *(f"{note}." for note in fitted.notes))
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
