"""Run `unitail predict` with several workers, or on rows streamed from an address."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import typer

from unitail.cli.console import bar, print_rows, report_unreadable
from unitail.encoders.cache import FeatureCache, default_cache
from unitail.engines.choice import EngineChoice
from unitail.engines.chunk_results import Summary
from unitail.engines.drawn_pool import drawn_pool
from unitail.engines.job import answer_rows_to_folder
from unitail.engines.rows import JobRows, open_rows
from unitail.engines.storage import Storage
from unitail.errors import InvalidConfig
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.prediction_sets import check_coverage
from unitail.inputs.encode import Unread
from unitail.inputs.items import LabelledItems, ReadOptions
from unitail.inputs.read import read_labelled
from unitail.processes import require_alone
from unitail.wording import numbered
from unitail.workflows.fit import add_pool, fit_files, load_saved, remembered_examples

ALL_IN = "the column 'reason' names all"


def run_together(
    support: Path,
    files: Sequence[str],
    *,
    engine: EngineChoice,
    out: str | None,
    also: Sequence[Path],
    pool: Sequence[str],
    options: ReadOptions,
    unsupported: Mapping[str, object],
    use_cache: bool,
    encoder: str | None,
    model: str,
    joint: bool,
    balanced: bool,
    top: int,
    coverage: float,
    device: str,
) -> None:
    """Fit the classifier here, answer the rows with the workers, and print a summary.

    `unsupported` maps options that workers cannot serve to their values: any that is set is an
    error.
    """
    require_alone("predict")
    _check_unset({**unsupported, "--joint": joint, "--balanced": balanced})
    check_coverage(coverage, "--coverage")
    target, device = _target(out), engine.device(device)
    saved = load_saved(model, joint=False, balanced=False, encoder=encoder, device=device)
    if saved is None:
        examples = read_labelled(support, options, also=also)
    else:
        examples, files = remembered_examples(saved), [str(support), *files]
    _require_files(files)
    rows = open_rows(files, options, like=examples)
    classes = numbered(len(examples.classes), "class")
    typer.echo(f"{examples.modality}: {numbered(len(examples), 'example')} of {classes}.")
    print_rows(rows)
    cache = default_cache() if use_cache else None
    unlabelled = open_rows(pool, options, like=examples) if pool else None
    classifier, unread = _fit_or_extend(
        saved, examples, unlabelled, cache, {"encoder": encoder, "model": model, "device": device}
    )
    workers = engine.make()
    with bar("answering", rows.stream.total) as on_progress:
        summary = answer_rows_to_folder(
            workers,
            rows,
            classifier,
            target,
            coverage=coverage,
            top=top,
            chunk_rows=engine.chunk_rows,
            on_progress=on_progress,
        )
    _print_summary(summary, str(out))
    named = [f"{item.name} ({item.among}): {item.reason}" for item in unread]
    number = summary.unreadable + len(named)
    report_unreadable([*named, *summary.named], all_in=ALL_IN, number=number)


def _fit_or_extend(
    saved: TailClassifier | None,
    examples: LabelledItems,
    pool: JobRows | None,
    cache: FeatureCache | None,
    settings: Mapping[str, Any],
) -> tuple[TailClassifier, tuple[Unread, ...]]:
    """Fit a classifier, or extend the saved one by the pool; also return its unreadable items."""
    with ExitStack() as stack:
        items = None if pool is None else stack.enter_context(drawn_pool(pool))
        if saved is not None:
            return add_pool(saved, items, cache)
        fitted = fit_files(examples, pool=items, cache=cache, **settings)
        return fitted.classifier, fitted.unreadable


def _check_unset(options: Mapping[str, object]) -> None:
    """Raise an error for options that need all answers in one process."""
    named = [name for name, value in options.items() if value]
    if named:
        raise InvalidConfig(
            "workers answer rows one by one and write them as they come",
            got=", ".join(named),
            allowed="--out FOLDER, and --pool in place of --joint",
            remedy="Leave it out; or leave out --engine, --workers and addresses.",
        )


def _target(out: str | None) -> Storage:
    if out is None or Path(out).suffix:
        raise InvalidConfig(
            "several workers write a folder of Parquet files",
            got="no --out" if out is None else f"--out {out}",
            allowed="--out FOLDER, or an address",
            remedy="Name a folder; `pandas.read_parquet(FOLDER)` reads all its files.",
        )
    return Storage(out)


def _require_files(files: Sequence[str]) -> None:
    if not files or "-" in files:
        raise InvalidConfig(
            "workers have nothing to answer",
            got="standard input" if files else "no FILES",
            allowed="folders and tables, with --workers or --engine",
            remedy="Name a folder or a table.",
        )


def _print_summary(summary: Summary, out: str) -> None:
    states = ", ".join(f"{number:,} {state}" for state, number in sorted(summary.counts.items()))
    typer.echo(
        f"{out}: {summary.rows:,} rows in {summary.chunks:,} files; answers: {states or 'none'}."
    )
