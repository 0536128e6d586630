"""`unitail evaluate`: how accurate your own examples make answers, and what more would bring."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unitail.cli import options

if TYPE_CHECKING:
    from rich.table import Table

    from unitail.framework.learner import Inference
    from unitail.workflows.learning_curve.curve import OwnCurve
    from unitail.workflows.learning_curve.data import OwnData


def evaluate(
    support: options.Support,
    encoder: options.Encoder = None,
    modality: options.Modality = None,
    label_column: options.LabelColumn = "label",
    content_column: options.ContentColumn = None,
    joint: options.Joint = False,
    splits: Annotated[int, typer.Option(min=2, help="Random splits of each size.")] = 200,
    out: Annotated[
        Path | None, typer.Option(help="Folder for curve.png, curve.csv and curve.json.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the splits.")] = 0,
    no_cache: options.NoCache = False,
    device: options.Device = "auto",
) -> None:
    """Estimate the accuracy that your own labelled examples give, and that more would.

    Some examples of each class are shown and others asked, again and again; then each is left out
    once. All learners answer the same questions. A class with too few examples gives all but one.
    Intervals (95 %) are for new items like yours: they know how few examples there are in all.
    Exit codes: 0; 1, some files could not be read, the rest was used; 2, the call is wrong.
    """
    from rich.console import Console

    from unitail.cli.console import say, say_trouble, say_unreadable
    from unitail.cli.progress import under_bar
    from unitail.configuration import choice
    from unitail.encoders.cache import default_cache
    from unitail.encoders.encoder import Modality
    from unitail.inputs.sources import read_labelled
    from unitail.workflows.learning_curve.data import encode_own
    from unitail.workflows.learning_curve.report import check_folder, sentences, write_curve

    if out is not None:
        check_folder(out)
    console = Console()
    kind = None if modality is None else choice(Modality, modality, "modality")
    examples = read_labelled(
        support, label_column=label_column, content_column=content_column, modality=kind
    )
    classes = len(examples.classes)
    say(console, f"{examples.modality}: {len(examples):,} examples of {classes:,} classes.")
    say(console, *(f"Passed over: {note}." for note in examples.ignored))
    cache = None if no_cache else default_cache()
    encode = partial(encode_own, examples, encoder=encoder, device=device, cache=cache, seed=seed)
    data = under_bar("encoding", len(examples), encode)
    say(console, f"Encoder: {data.encoder}.", *(f"{note}." for note in data.notes))
    curve = _estimate(data, joint=joint, splits=splits, seed=seed, device=device)
    console.print(_table(curve))
    say(console, *sentences(curve, data))
    if out is not None:
        write_curve(curve, data, out)
        say(console, f"Plot and numbers are in {out}.")
    say_trouble(cache)
    say_unreadable(
        [f"{item.name}: {item.reason}" for item in data.unreadable], all_in="--out lists all"
    )


def _estimate(data: "OwnData", *, joint: bool, splits: int, seed: int, device: str) -> "OwnCurve":
    """Estimate under a bar."""
    from unitail.cli.progress import under_bar
    from unitail.devices import choose_device
    from unitail.workflows.learning_curve.curve import own_curve

    where = choose_device(device)
    learners = _learners(joint, str(where))
    work = partial(own_curve, data.rows, learners, splits=splits, seed=seed, device=where)
    return under_bar("splits", None, work)


def _learners(joint: bool, device: str) -> "dict[str, Inference]":
    from unitail.baselines.linear_probe import LinearProbe, ProbeVariant
    from unitail.baselines.proto_head import ProtoHead, PrototypeVariant
    from unitail.learners.in_context import InContextLearner
    from unitail.learners.pretrained import load_default
    from unitail.nn.visibility import Visibility
    from unitail.workflows.learning_curve.report import OURS

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

    from unitail.workflows.learning_curve.report import lines

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
