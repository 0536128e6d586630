"""Run `unitail predict`."""

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from unitail.cli.console import bar, say, say_trouble, say_unreadable
from unitail.encoders.cache import default_cache
from unitail.inputs.items import Items, LabelledItems
from unitail.inputs.read import read_labelled, read_unlabelled
from unitail.wording import numbered, some
from unitail.workflows.answers import NOVEL, SUFFIXES, Answers, check_target, write_answers
from unitail.workflows.html_report.page import MAX_CARDS, write_html_report
from unitail.workflows.predict import predict_files

MAX_ROWS = 30
"""Answers on the screen."""
UNSURE = 0.5
"""Answers of a lower probability are marked."""
MIN_PROBABILITY = 0.005
"""Less probable classes are not named."""
MAX_CLASSES = 8
"""Classes named on the screen."""
PAGES = (".html", ".htm")


def run(
    support: Path,
    queries: Sequence[Path],
    *,
    modality: str | None,
    label_column: str,
    content_column: str | None,
    out: Path | None,
    report: Path | None,
    use_cache: bool,
    encoder: str | None,
    model: str,
    joint: bool,
    balanced: bool,
    top: int,
    coverage: float,
    device: str,
) -> None:
    """Read, answer, print, and write the files that are wanted."""
    for path, suffixes in ((out, SUFFIXES), (report, PAGES)):
        if path is not None:
            check_target(path, *suffixes)
    console = Console()
    examples = read_labelled(
        support, label_column=label_column, content_column=content_column, modality=modality
    )
    items = read_unlabelled(
        queries,
        label_column=label_column,
        content_column=content_column,
        modality=modality,
        like=examples,
    )
    _tell_inputs(console, examples, items)
    cache = default_cache() if use_cache else None
    with bar("encoding", len(examples) + len(items)) as on_progress:
        answers = predict_files(
            examples,
            items,
            encoder=encoder,
            model=model,
            joint=joint,
            balanced=balanced,
            coverage=coverage,
            top=top,
            cache=cache,
            device=device,
            on_progress=on_progress,
        )
    _tell_answers(console, answers)
    if out is not None:
        write_answers(answers, out)
        say(console, f"All answers are in {out}.")
    if report is not None:
        _write_report(console, answers, items, report, title=f"Answers from {support.name}")
    say_trouble(cache)
    say_unreadable(
        [f"{item.name} ({item.among}): {item.reason}" for item in answers.unreadable],
        all_in="--out FILE.json or --report lists all",
    )


def _write_report(
    console: Console, answers: Answers, items: Items, path: Path, *, title: str
) -> None:
    with bar("drawing", min(len(answers.answers), MAX_CARDS)) as on_progress:
        write_html_report(answers, items, path, title=title, on_progress=on_progress)
    say(console, f"Look at {path}.")


def _tell_inputs(console: Console, examples: LabelledItems, items: Items) -> None:
    """Say what was recognised, and what was passed over."""
    classes = examples.classes
    say(
        console,
        f"{examples.modality}: {len(examples):,} examples of {len(classes)} classes"
        f" ({some(classes, MAX_CLASSES)}), {len(items):,} to answer.",
    )
    if examples.content_column is not None:
        say(console, f"Content is in the column {examples.content_column!r}.")
    say(console, *(f"Passed over among the examples: {note}." for note in examples.ignored))
    say(console, *(f"Passed over among the queries: {note}." for note in items.ignored))


def _tell_answers(console: Console, answers: Answers) -> None:
    """Print the least sure answers, and how many there are."""
    cached = f"; {answers.num_cached:,} were encoded before" if answers.num_cached else ""
    say(console, f"Encoder: {answers.encoder}{cached}.", *(f"{note}." for note in answers.notes))
    repeated = answers.repeated
    if repeated:
        equal = "equals" if len(repeated) == 1 else "equal"
        say(console, f"{len(repeated):,} of the queries {equal} an example ({repeated[0]}).")
    if answers.answers:
        console.print(_table(answers, room=console.width // 4))


def _table(answers: Answers, room: int) -> Table:
    """Show the least sure answers; names are never read as markup."""
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
    for answer in answers.by_uncertainty()[:MAX_ROWS]:
        others = [f"{label} ({p:.0%})" for label, p in answer.top[1:] if p >= MIN_PROBABILITY]
        unsure = answer.probability < UNSURE
        table.add_row(
            Text(_cut(answer.name, room)),
            Text(_cut(answer.label, room), style="bold"),
            Text(f"{'? ' if unsure else ''}{answer.probability:.0%}", _style(unsure)),
            Text(", ".join(others), style="dim", no_wrap=True, overflow="ellipsis"),
            Text(str(len(answer.members))),
            Text(f"{answer.novelty:.2f}", _style(answer.novelty >= NOVEL)),
        )
    hidden = len(answers.answers) - MAX_ROWS
    more = f" {hidden:,} surer ones are not shown." if hidden > 0 else ""
    table.caption = Text(
        f"{numbered(len(answers.answers), 'answer')}, the least sure first.{more}"
        f" ?: below {UNSURE:.0%}."
        f" set: how many classes hold the true one in {answers.coverage:.0%} of cases."
        f" novelty: from {NOVEL} on, maybe none of the classes."
    )
    return table


def _cut(text: str, room: int) -> str:
    """Leave out the middle of a long text: paths differ at their ends, sentences at both."""
    half = (room - 1) // 2
    return text if len(text) <= room else f"{text[: room - 1 - half]}…{text[-half:]}"


def _style(marked: bool) -> str:
    return "yellow" if marked else ""
