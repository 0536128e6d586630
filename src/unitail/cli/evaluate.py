"""`unitail evaluate`: how accurate your own examples make answers, and what more would bring."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console
    from rich.table import Table

    from unitail.framework.learner import Inference
    from unitail.tasks.sources import LabelledItems
    from unitail.workflows.own_curve import OwnCurve
    from unitail.workflows.own_data import OwnData

TOLD = 10
"""Unreadable files on the screen."""
MODALITIES = ("image", "text", "audio", "table")


def evaluate(
    support: Annotated[
        Path,
        typer.Argument(help="A folder with a subfolder for each class, or a table with labels."),
    ],
    encoder: Annotated[
        str | None,
        typer.Option(help="Name of an encoder, or a transformers model; else the offline default."),
    ] = None,
    modality: Annotated[
        str | None, typer.Option(help=f"Where files leave a doubt: {', '.join(MODALITIES)}.")
    ] = None,
    label_column: Annotated[str, typer.Option(help="The column of labels in a table.")] = "label",
    content_column: Annotated[
        str | None, typer.Option(help="The column of texts or paths in a table.")
    ] = None,
    joint: Annotated[
        bool, typer.Option("--joint", help="Answer what is asked together: rows inform each other.")
    ] = False,
    splits: Annotated[int, typer.Option(min=2, help="Random splits of each size.")] = 200,
    out: Annotated[
        Path | None, typer.Option(help="Folder for curve.png, curve.csv and curve.json.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the splits.")] = 0,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Neither use nor fill the feature cache.")
    ] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, ...")] = "auto",
) -> None:
    """Estimate the accuracy that your own labelled examples give, and that more would.

    Some examples of each class are shown and others asked, again and again; then each is left out
    once. All learners answer the same questions. A class with too few examples gives all but one.
    Intervals (95 %) are for new items like yours: they know how few examples there are in all.
    Exit codes: 0; 1, some files could not be read, the rest was used; 2, the call is wrong.
    """
    from rich.console import Console

    from unitail.configuration import choice
    from unitail.encoders.cache import default_cache
    from unitail.encoders.encoder import Modality
    from unitail.evaluation.report_extra import optional
    from unitail.tasks.sources import read_labelled
    from unitail.workflows.own_report import sentences, write_curve

    if out is not None:
        optional("matplotlib")  # before the work, not after it
    console = Console()
    kind = None if modality is None else choice(Modality, modality, "modality")
    examples = read_labelled(
        support, label_column=label_column, content_column=content_column, modality=kind
    )
    _tell_examples(console, examples)
    cache = None if no_cache else default_cache()
    options = {"encoder": encoder, "device": device, "cache": cache, "seed": seed}
    data = _encode(examples, options)
    _tell(console, f"Encoder: {data.encoder}.", *data.notes)
    curve = _estimate(data, joint=joint, splits=splits, seed=seed, device=device)
    console.print(_table(curve))
    _tell(console, *sentences(curve, data))
    if out is not None:
        write_curve(curve, data, out)
        _tell(console, f"Plot and numbers are in {out}.")
    if cache is not None and cache.trouble:
        typer.echo(f"unitail: {cache.trouble}", err=True)
    _tell_unreadable(data)


def _tell(console: "Console", *lines: str) -> None:
    """Print lines in which names are never read as markup."""
    for line in lines:
        console.print(line, markup=False, highlight=False)


def _tell_examples(console: "Console", examples: "LabelledItems") -> None:
    _tell(
        console,
        f"{examples.modality}: {len(examples):,} examples of {len(examples.classes)} classes.",
        *(f"Passed over: {note}." for note in examples.ignored),
    )


def _encode(examples: "LabelledItems", options: "Mapping[str, object]") -> "OwnData":
    """Encode under a bar."""
    from rich.console import Console

    from unitail.cli.progress import progress_bar
    from unitail.workflows.own_data import encode_own

    with progress_bar(Console(stderr=True)) as progress:
        bar = progress.add_task("encoding", total=len(examples))

        def show(done: int) -> None:
            progress.update(bar, completed=done)

        data = encode_own(examples, **options, on_progress=show)  # type: ignore[arg-type]
        show(len(examples))  # tables are encoded all at once
        return data


def _estimate(data: "OwnData", *, joint: bool, splits: int, seed: int, device: str) -> "OwnCurve":
    """Estimate under a bar."""
    from rich.console import Console

    from unitail.cli.progress import progress_bar
    from unitail.estimator.choices import choose_device
    from unitail.workflows.own_curve import own_curve

    where = choose_device(device)
    with progress_bar(Console(stderr=True)) as progress:
        bar = progress.add_task("splits", total=None)
        return own_curve(
            data.rows,
            _learners(joint, str(where)),
            splits=splits,
            seed=seed,
            device=where,
            on_progress=lambda done, total: progress.update(bar, completed=done, total=total),
        )


def _learners(joint: bool, device: str) -> "dict[str, Inference]":
    from unitail.baselines.linear_probe import LinearProbe, ProbeVariant
    from unitail.baselines.proto_head import ProtoHead, PrototypeVariant
    from unitail.learners.in_context import InContextLearner
    from unitail.learners.pretrained import load_default
    from unitail.nn.visibility import Visibility
    from unitail.workflows.own_report import OURS

    visibility = Visibility.JOINT if joint else Visibility.ISOLATED
    return {
        OURS: InContextLearner(load_default(device), visibility=visibility),
        "logistic regression": LinearProbe(ProbeVariant.TUNED),
        "prototypes": ProtoHead(PrototypeVariant.CENTRED),
    }


def _table(curve: "OwnCurve") -> "Table":
    """Show a row for each number of examples and a column for each learner."""
    from itertools import groupby

    from rich import box
    from rich.table import Column, Table

    from unitail.workflows.own_report import lines

    table = Table(
        Column("examples\nof a class", justify="right", no_wrap=True),
        Column("how", no_wrap=True),
        *(Column(name, justify="right") for name in curve.learners),
        title="Accuracy in % (95 % interval)",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        caption_justify="left",
    )
    for (how, examples), group in groupby(lines(curve), lambda each: (each.how, each.examples)):
        own = {line.learner: line.accuracy for line in group}
        cells = (
            f"{100 * own[name].mean:.1f} ({100 * own[name].low:.0f}-{100 * own[name].high:.0f})"
            if name in own
            else "cannot"
            for name in curve.learners
        )
        about = "about " if how == "forecast" else ""
        table.add_row(f"{about}{examples:.3g}", how, *cells)
    return table


def _tell_unreadable(data: "OwnData") -> None:
    """List what could not be read, on the error stream, and leave with 1."""
    if not data.unreadable:
        return
    typer.echo(f"unitail: {len(data.unreadable):,} could not be read and were skipped:", err=True)
    for item in data.unreadable[:TOLD]:
        typer.echo(f"  {item.name}: {item.reason}", err=True)
    if len(data.unreadable) > TOLD:
        typer.echo(f"  and {len(data.unreadable) - TOLD:,} more; --out lists all.", err=True)
    raise typer.Exit(1)
