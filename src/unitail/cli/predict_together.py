"""Run `unitail predict` with several workers, or on rows streamed from an address."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console

from unitail.cli.console import (
    bar,
    print_encoder,
    print_examples,
    print_lines,
    print_rows,
    report_unreadable,
)
from unitail.cli.predict import PredictCall
from unitail.engines.choice import EngineChoice
from unitail.engines.chunk_results import Summary
from unitail.engines.drawn_pool import drawn_pool
from unitail.engines.job import answer_rows_to_folder
from unitail.engines.rows import open_rows
from unitail.engines.storage import Storage
from unitail.errors import InvalidConfig
from unitail.estimator.classifier import TailClassifier
from unitail.inputs.items import LabelledItems
from unitail.wording import numbered
from unitail.workflows.fit import FittedFiles, check_model, fit_files

ALL_IN = "the column 'reason' names all"


def run_together(
    call: PredictCall, engine: EngineChoice, out: str | None, unsupported: Mapping[str, object]
) -> None:
    """Fit the classifier here, answer the rows with the workers, and print a summary.

    `unsupported` maps options that workers cannot serve to their values: any that is set is an
    error.
    """
    options, wanted = call.classifier, call.wanted
    together = {"--why": wanted.why, "--joint": options.joint, "--balanced": options.balanced}
    _check_unset({**unsupported, **together})
    target = _target(out)
    engine.check()
    call = replace(call, classifier=replace(options, device=engine.device(options.device)))
    saved, examples, files = call.begin()
    check_model(saved or call.classifier.classifier(), call.classifier, workers=True)
    _require_files(files)
    rows = open_rows(files, call.reading, like=examples)
    console = Console()
    print_examples(console, examples)
    print_rows(rows)
    fitted = _fit(call, examples, saved)
    print_encoder(console, fitted.encoder.name, fitted.num_cached, fitted.notes)
    workers = engine.make()
    with bar("answering", rows.stream.total) as on_progress:
        summary = answer_rows_to_folder(
            workers,
            rows,
            fitted.classifier,
            target,
            coverage=wanted.coverage,
            top=wanted.top,
            chunk_rows=engine.chunk_rows,
            on_progress=on_progress,
        )
    _print_summary(summary, str(out))
    if summary.unread_cells:
        print_lines(console, f"Skipped among the rows: {rows.note_unread(summary.unread_cells)}.")
    named = [f"{item.name} ({item.among}): {item.reason}" for item in fitted.unreadable]
    number = summary.unreadable + len(named)
    report_unreadable([*named, *summary.named], all_in=ALL_IN, number=number)


def _fit(call: PredictCall, examples: LabelledItems, saved: TailClassifier | None) -> FittedFiles:
    """Fit a classifier on the examples, or extend the saved one, with a pool drawn if named."""
    with ExitStack() as stack:
        pool = None
        if call.pool:
            rows = open_rows(call.pool, call.reading, like=examples)
            pool = stack.enter_context(drawn_pool(rows))
        return fit_files(
            examples, call.classifier, saved=saved, pool=pool, cache=call.cache(examples)
        )


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
            "streamed rows are written to a folder of Parquet files",
            got="no --out" if out is None else f"--out {out}",
            allowed="--out FOLDER, or an address; rows are streamed with --workers, --engine ray"
            " and addresses",
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
        f"{out}: {numbered(summary.rows, 'row')} in {numbered(summary.chunks, 'file')};"
        f" answers: {states or 'none'}."
    )
