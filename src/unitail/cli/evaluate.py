"""Run `unitail evaluate`."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Column, Table

from unitail.cli.console import (
    bar,
    print_cache_trouble,
    print_encoder,
    print_examples,
    print_lines,
    report_unreadable,
)
from unitail.encoders.cache import default_cache
from unitail.estimator.as_learner import ClassifierLearner
from unitail.inputs.input_encoder import InputEncoder
from unitail.inputs.items import ReadOptions
from unitail.inputs.read import check_columns
from unitail.learners.registry import LEARNERS
from unitail.processes import choose_device
from unitail.workflows.fit import ClassifierOptions, check_model, read_examples
from unitail.workflows.learning_curve.curve import OwnCurve, own_curve
from unitail.workflows.learning_curve.data import OwnData, encode_own
from unitail.workflows.learning_curve.report import (
    OURS,
    check_folder,
    lines,
    sentences,
    write_curve,
)


def run(
    examples_path: Path,
    *,
    also: Sequence[Path],
    reading: ReadOptions,
    options: ClassifierOptions,
    splits: int,
    out: Path | None,
    seed: int,
    use_cache: bool,
) -> None:
    """Read and encode the examples, estimate and print the curve, and write its files."""
    if out is not None:
        check_folder(out)
    options.check()
    options.check_unfitted()
    check_model(options.classifier(), options)
    check_columns(reading, examples_path, also)
    console = Console()
    examples = read_examples(examples_path, reading, also=also)
    print_examples(console, examples)
    cache = default_cache() if use_cache and examples.need_encoders else None
    with bar("encoding", len(examples)) as on_progress:
        data = encode_own(examples, options, cache=cache, seed=seed, on_progress=on_progress)
    print_encoder(console, data.encoder, 0, data.notes)
    curve = _estimate(data, options, splits=splits, seed=seed)
    console.print(_table(curve))
    print_lines(console, *sentences(curve, data))
    if out is not None:
        write_curve(curve, data, out)
        print_lines(console, f"Plot and numbers are in {out}.")
    print_cache_trouble(cache)
    report_unreadable(
        [f"{item.name}: {item.reason}" for item in data.unreadable], all_in="--out lists all"
    )


def _estimate(data: OwnData, options: ClassifierOptions, *, splits: int, seed: int) -> OwnCurve:
    """Estimate the learning curve under a progress bar."""
    where = choose_device(options.device)
    ours = our_learner(data.made_by, options)
    simple = (LEARNERS["linear_probe_tuned"], LEARNERS["proto_head_centred"])
    learners = {OURS: ours, **{entry.label: entry.build(str(where)) for entry in simple}}
    with bar("splits") as on_progress:
        return own_curve(
            data.rows,
            learners,
            splits=splits,
            seed=seed,
            device=where,
            model=ours.settings.given_model,
            on_progress=on_progress,
        )


def our_learner(encoder: InputEncoder, options: ClassifierOptions) -> ClassifierLearner:
    """Return the learner behind `unitail predict` with these options."""
    return ClassifierLearner.of(options.classifier(encoder))


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
