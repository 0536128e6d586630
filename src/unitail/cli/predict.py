"""`unitail predict`: labelled examples and files in, answers out."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unitail.cli import options

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from unitail.inputs.sources import Items, LabelledItems
    from unitail.workflows.answers import Answers

SHOWN = 30
"""Answers on the screen."""
UNSURE = 0.5
"""Answers of a lower probability are marked."""
WORTH_NAMING = 0.005
"""Less probable classes are not named."""
NAMED = 8
"""Classes named on the screen."""
PAGES = (".html", ".htm")


def predict(
    support: options.Support,
    queries: Annotated[
        list[Path],
        typer.Argument(
            metavar="QUERIES",
            help="Folders, files, tables, or - for lines of text from standard input.",
        ),
    ],
    encoder: options.Encoder = None,
    modality: options.Modality = None,
    label_column: options.LabelColumn = "label",
    content_column: options.ContentColumn = None,
    joint: options.Joint = False,
    balanced: Annotated[
        bool,
        typer.Option("--balanced", help="With --joint: all classes occur equally often."),
    ] = False,
    top: Annotated[int, typer.Option(min=1, help="Classes named for each answer.")] = 3,
    coverage: Annotated[
        float, typer.Option(help="How often a set should hold the true class, 0 to 1.")
    ] = 0.9,
    out: Annotated[
        Path | None, typer.Option(help="Write all answers to this .csv or .json file.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page to look at to this .html file.")
    ] = None,
    no_cache: options.NoCache = False,
    device: options.Device = "auto",
) -> None:
    """Say which class each item belongs to, from a few labelled examples.

    Tables are CSV, TSV, Parquet or JSON lines, with a column of labels, and
    a column of paths or of texts, or columns of features.

    Exit codes: 0, all was answered; 1, some files could not be read, and the
    rest was answered; 2, the call is wrong and nothing was answered.
    """
    from rich.console import Console

    from unitail.cli.console import say_trouble, say_unreadable
    from unitail.cli.progress import under_bar
    from unitail.configuration import choice
    from unitail.encoders.cache import default_cache
    from unitail.encoders.encoder import Modality
    from unitail.inputs.sources import read_labelled, read_unlabelled
    from unitail.workflows.answers import SUFFIXES, check_target
    from unitail.workflows.predict import predict_files

    for path, suffixes in ((out, SUFFIXES), (report, PAGES)):
        if path is not None:
            check_target(path, *suffixes)
    console = Console()
    columns: dict[str, Any] = {"label_column": label_column, "content_column": content_column}
    kind = None if modality is None else choice(Modality, modality, "modality")
    examples = read_labelled(support, modality=kind, **columns)
    items = read_unlabelled(queries, modality=kind, like=examples, **columns)
    _tell_sources(console, examples, items)
    cache = None if no_cache else default_cache()
    answer = partial(
        predict_files,
        examples,
        items,
        encoder=encoder,
        joint=joint,
        balanced=balanced,
        coverage=coverage,
        top=top,
        cache=cache,
        device=device,
    )
    found = under_bar("encoding", len(examples) + len(items), answer)
    _tell_answers(console, found)
    _write(console, found, out)
    _draw(console, found, items, report, title=f"Answers from {support.name}")
    say_trouble(cache)
    say_unreadable(
        [f"{item.name} ({item.source}): {item.reason}" for item in found.unreadable],
        all_in="--out FILE.json or --report lists all",
    )


def _write(console: "Console", found: "Answers", path: Path | None) -> None:
    """Write the answers, if they are wanted in a file."""
    from unitail.cli.console import say
    from unitail.workflows.answers import write_answers

    if path is not None:
        write_answers(found, path)
        say(console, f"All answers are in {path}.")


def _draw(
    console: "Console", found: "Answers", items: "Items", path: Path | None, *, title: str
) -> None:
    """Write the page, if it is wanted."""
    from unitail.cli.console import say
    from unitail.cli.progress import under_bar
    from unitail.workflows.html_report import MOST_CARDS, write_report

    if path is not None:
        draw = partial(write_report, found, items, path, title=title)
        under_bar("drawing", min(len(found.answers), MOST_CARDS), draw)
        say(console, f"Look at {path}.")


def _tell_sources(console: "Console", examples: "LabelledItems", items: "Items") -> None:
    """Say what was recognised, and what was passed over."""
    from unitail.cli.console import say

    classes = examples.classes
    named = ", ".join(classes[:NAMED]) + (", …" if len(classes) > NAMED else "")
    lines = [
        f"{examples.modality}: {len(examples):,} examples of {len(classes)} classes ({named}),"
        f" {len(items):,} to answer."
    ]
    if examples.content_column is not None:
        lines.append(f"Content is in the column {examples.content_column!r}.")
    lines += [f"Passed over among the examples: {note}." for note in examples.ignored]
    lines += [f"Passed over among the queries: {note}." for note in items.ignored]
    say(console, *lines)


def _tell_answers(console: "Console", found: "Answers") -> None:
    """Print the least sure answers, and how many there are."""
    from unitail.cli.console import say

    cached = f"; {found.num_cached:,} were encoded before" if found.num_cached else ""
    say(console, f"Encoder: {found.encoder}{cached}.", *(f"{note}." for note in found.notes))
    if found.repeated:
        equal = "equals" if len(found.repeated) == 1 else "equal"
        line = f"{len(found.repeated):,} of the queries {equal} an example ({found.repeated[0]})."
        say(console, line)
    if found.answers:
        console.print(_table(found, room=console.width // 4))


def _table(found: "Answers", room: int) -> "Table":
    """Show the least sure answers; names are never read as markup."""
    from rich import box
    from rich.table import Column, Table
    from rich.text import Text

    from unitail.wording import numbered
    from unitail.workflows.answers import STRANGE

    table = Table(
        Column("item", no_wrap=True),
        Column("answer", no_wrap=True),
        Column("prob.", justify="right", no_wrap=True),
        Column("next"),
        Column("set", justify="right", no_wrap=True),
        Column("novelty", justify="right", no_wrap=True),
        box=box.SIMPLE_HEAD,
        show_edge=False,
        caption_justify="left",
    )
    for answer in found.by_uncertainty()[:SHOWN]:
        others = [f"{label} ({p:.0%})" for label, p in answer.top[1:] if p >= WORTH_NAMING]
        unsure = answer.probability < UNSURE
        table.add_row(
            Text(_cut(answer.name, room)),
            Text(_cut(answer.label, room), style="bold"),
            Text(f"{'? ' if unsure else ''}{answer.probability:.0%}", _style(unsure)),
            Text(", ".join(others), style="dim", no_wrap=True, overflow="ellipsis"),
            Text(str(len(answer.members))),
            Text(f"{answer.novelty:.2f}", _style(answer.novelty >= STRANGE)),
        )
    hidden = len(found.answers) - SHOWN
    more = f" {hidden:,} surer ones are not shown." if hidden > 0 else ""
    table.caption = Text(
        f"{numbered(len(found.answers), 'answer')}, the least sure first.{more}"
        f" ?: below {UNSURE:.0%}."
        f" set: how many classes hold the true one in {found.coverage:.0%} of cases."
        f" novelty: from {STRANGE} on, maybe none of the classes."
    )
    return table


def _cut(text: str, room: int) -> str:
    """Leave out the middle of a long text: paths differ at their ends, sentences at both."""
    half = (room - 1) // 2
    return text if len(text) <= room else f"{text[: room - 1 - half]}…{text[-half:]}"


def _style(marked: bool) -> str:
    return "yellow" if marked else ""
