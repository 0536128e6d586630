"""Run `unitail evaluate`."""

from itertools import groupby
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Column, Table

from unitail.cli.console import bar, print_cache_trouble, print_lines, report_unreadable
from unitail.devices import choose_device
from unitail.encoders.cache import default_cache
from unitail.estimator.as_learner import ClassifierLearner
from unitail.framework.learner import Inference
from unitail.inputs.input_encoder import InputEncoder
from unitail.inputs.items import ReadOptions
from unitail.inputs.read import read_labelled
from unitail.learners.registry import LEARNERS
from unitail.workflows.learning_curve.curve import OwnCurve, own_curve
from unitail.workflows.learning_curve.data import OwnData, encode_own
from unitail.workflows.learning_curve.report import (
    OURS,
    check_folder,
    lines,
    sentences,
    write_curve,
)
from unitail.workflows.predict import make_classifier


def run(
    support: Path,
    *,
    options: ReadOptions,
    encoder: str | None,
    joint: bool,
    splits: int,
    out: Path | None,
    seed: int,
    use_cache: bool,
    device: str,
) -> None:
    """Read and encode the examples, estimate and print the curve, and write its files."""
    if out is not None:
        check_folder(out)
    console = Console()
    examples = read_labelled(support, options)
    classes = len(examples.classes)
    print_lines(console, f"{examples.modality}: {len(examples):,} examples of {classes:,} classes.")
    print_lines(console, *(f"Guessed: {note}." for note in examples.guesses))
    print_lines(console, *(f"Skipped: {note}." for note in examples.ignored))
    cache = default_cache() if use_cache and examples.need_encoders else None
    with bar("encoding", len(examples)) as on_progress:
        data = encode_own(
            examples,
            encoder=encoder,
            device=device,
            cache=cache,
            seed=seed,
            on_progress=on_progress,
        )
    print_lines(console, f"Encoder: {data.encoder}.", *(f"{note}." for note in data.notes))
    curve = _estimate(data, joint=joint, splits=splits, seed=seed, device=device)
    console.print(_table(curve))
    print_lines(console, *sentences(curve, data))
    if out is not None:
        write_curve(curve, data, out)
        print_lines(console, f"Plot and numbers are in {out}.")
    print_cache_trouble(cache)
    report_unreadable(
        [f"{item.name}: {item.reason}" for item in data.unreadable], all_in="--out lists all"
    )


def _estimate(data: OwnData, *, joint: bool, splits: int, seed: int, device: str) -> OwnCurve:
    """Estimate the learning curve under a progress bar."""
    where = choose_device(device)
    learners = measured_learners(data.made_by, joint=joint, device=str(where))
    with bar("splits") as on_progress:
        return own_curve(
            data.rows, learners, splits=splits, seed=seed, device=where, on_progress=on_progress
        )


def measured_learners(made_by: InputEncoder, *, joint: bool, device: str) -> dict[str, Inference]:
    """Return the learner behind `unitail predict`, and simple methods to compare it with."""
    ours = ClassifierLearner.of(make_classifier(encoder=made_by, joint=joint, device=device))
    simple = (LEARNERS["linear_probe_tuned"], LEARNERS["proto_head_centred"])
    return {OURS: ours, **{entry.label: entry.build(device) for entry in simple}}


def _table(curve: OwnCurve) -> Table:
    """Return a table with a row for each number of examples and a column for each learner."""
    table = Table(
        Column("examples\nper class", justify="right", no_wrap=True),
        Column("how", no_wrap=True),
        *(Column(name, justify="right") for name in curve.learners),
        title="Accuracy in % (95 % interval)",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        caption_justify="left",
    )
    for (how, examples), group in groupby(lines(curve), lambda each: (each.how, each.examples)):
        accuracy = {line.learner: line.accuracy for line in group}
        cells = (
            f"{100 * accuracy[name].mean:.1f}"
            f" ({100 * accuracy[name].low:.0f}-{100 * accuracy[name].high:.0f})"
            if name in accuracy
            else "cannot"
            for name in curve.learners
        )
        about = "about " if how == "forecast" else ""
        table.add_row(f"{about}{examples:.3g}", how, *cells)
    return table
