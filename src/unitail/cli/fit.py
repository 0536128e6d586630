"""Run `unitail fit`."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from unitail.cli.console import bar, say, say_trouble, say_unreadable
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
    """Read, encode, fit, and write the folder."""
    check_free(folder)
    console = Console()
    examples = read_labelled(path, options, also=also)
    unlabelled = read_pool(pool, examples, options)
    classes = numbered(len(examples.classes), "class")
    say(console, f"{examples.modality}: {len(examples):,} examples of {classes}.")
    if unlabelled is not None:
        say(console, f"{len(unlabelled):,} without labels beside them.")
    say(console, *(f"Guessed: {note}." for note in examples.guesses))
    say(console, *(f"Passed over: {note}." for note in examples.ignored))
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
    cached = f"; {fitted.num_cached:,} were encoded before" if fitted.num_cached else ""
    say(console, f"Encoder: {fitted.encoder.name}{cached}.")
    say(console, *(f"{note}." for note in fitted.notes))
    say(console, "Leaving examples out, to learn how sure answers must be.")
    fitted.classifier.save(folder)
    say(
        console,
        f"Saved in {shown(folder)}. To answer: unitail predict --model {shown(folder)} FILES",
    )
    say_trouble(cache)
    say_unreadable(
        [f"{item.name}: {item.reason}" for item in fitted.unreadable],
        all_in="none of them was learned from",
    )
