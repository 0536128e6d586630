"""Answers and their scores on the screen."""

from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from unitail.cli.console import say
from unitail.inputs.items import Items, LabelledItems
from unitail.wording import numbered, some
from unitail.workflows.answers import DOUBTFUL, NOVEL, Answers, AnswerScores, State

MAX_ROWS = 30
"""Answers on the screen."""
MIN_PROBABILITY = 0.005
"""Less probable classes are not named."""
MAX_NAMED = 8
"""Classes named on the screen."""
MAX_CLASSES = 12
"""Classes whose scores are shown, those with most mistakes."""


def tell_inputs(
    console: Console, examples: LabelledItems, items: Items, pool: Items | None = None
) -> None:
    """Say what was recognised, and what was passed over."""
    classes = examples.classes
    say(
        console,
        f"{examples.modality}: {len(examples):,} examples of {len(classes)} classes"
        f" ({some(classes, MAX_NAMED)}), {len(items):,} to answer"
        + ("." if pool is None else f", {len(pool):,} without labels beside them."),
    )
    if examples.content_column is not None:
        say(console, f"Content is in the column {examples.content_column!r}.")
    guesses = dict.fromkeys((*examples.guesses, *items.guesses))
    say(console, *(f"Guessed: {note}." for note in guesses))
    say(console, *(f"Passed over among the examples: {note}." for note in examples.ignored))
    say(console, *(f"Passed over among the files: {note}." for note in items.ignored))


def tell_answers(console: Console, answers: Answers) -> None:
    """Print the least sure answers, and how many there are."""
    cached = f"; {answers.num_cached:,} were encoded before" if answers.num_cached else ""
    say(console, f"Encoder: {answers.encoder}{cached}.", *(f"{note}." for note in answers.notes))
    repeated = answers.repeated
    if repeated:
        equal = "equals" if len(repeated) == 1 else "equal"
        say(console, f"{len(repeated):,} of the files {equal} an example ({repeated[0]}).")
    if answers.answers:
        console.print(_answer_table(answers, room=console.width // 4))
        if answers.why:
            console.print(_why_table(answers, room=console.width // 4))


def tell_scores(console: Console, scores: AnswerScores) -> None:
    """Print how right the answers are, in all and for each class."""
    low, high = scores.interval
    without = (
        f" {numbered(scores.num_repeated, 'item')} equal to an example"
        f" {'is' if scores.num_repeated == 1 else 'are'} not counted."
        if scores.num_repeated
        else ""
    )
    say(
        console,
        f"{numbered(scores.num_items, 'item')} with a label: {scores.num_right:,} answered right,"
        f" {scores.accuracy:.1%} (95 % interval {low:.1%} to {high:.1%}).{without}",
    )
    console.print(_score_table(scores))


def _answer_table(answers: Answers, room: int) -> Table:
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
        doubtful = answer.probability < DOUBTFUL
        table.add_row(
            Text(_cut(answer.name, room)),
            Text(_cut(answer.label, room), style="bold"),
            Text(f"{'? ' if doubtful else ''}{answer.probability:.0%}", _style(doubtful)),
            Text(", ".join(others), style="dim", no_wrap=True, overflow="ellipsis"),
            Text(str(len(answer.members))),
            Text(f"{answer.novelty:.2f}", _style(answer.state is State.NOVEL)),
        )
    hidden = len(answers.answers) - MAX_ROWS
    are = "is" if hidden == 1 else "are"
    more = f" {numbered(hidden, 'surer one')} {are} not shown." if hidden > 0 else ""
    table.caption = Text(
        f"{numbered(len(answers.answers), 'answer')}, the least sure first.{more}"
        f" ?: doubtful, below {DOUBTFUL:.0%}."
        f" set: how many classes it takes to hold the true one in {answers.coverage:.0%} of cases."
        f" novelty: from {NOVEL} on, maybe none of the classes."
    )
    return table


def _why_table(answers: Answers, room: int) -> Table:
    """Show what speaks for the least sure answers."""
    columns = any(answer.because_columns for answer in answers.answers)
    table = Table(
        Column("item", no_wrap=True),
        Column("answer", no_wrap=True),
        Column("because of"),
        *([Column("columns")] if columns else []),
        box=box.SIMPLE_HEAD,
        show_edge=False,
        caption_justify="left",
    )
    for answer in answers.by_uncertainty()[:MAX_ROWS]:
        examples = [
            f"{_cut(each.name, room)} ({each.label}, {each.share:.0%})" for each in answer.because
        ]
        named = [f"{name} ({share:.0%})" for name, share in answer.because_columns]
        table.add_row(
            Text(_cut(answer.name, room)),
            Text(_cut(answer.label, room), style="bold"),
            Text("\n".join(examples)),
            *([Text("\n".join(named))] if columns else []),
        )
    table.caption = Text("Shares are parts of all that speaks for the answer.")
    return table


def _score_table(scores: AnswerScores) -> Table:
    """Show the classes with most mistakes."""
    table = Table(
        Column("class", no_wrap=True),
        Column("items", justify="right"),
        Column("recognised", justify="right"),
        Column("answers", justify="right"),
        Column("right", justify="right"),
        Column("taken for"),
        box=box.SIMPLE_HEAD,
        show_edge=False,
        caption_justify="left",
    )
    classes = sorted(scores.by_class(), key=lambda each: each.right - each.items)
    for each in classes[:MAX_CLASSES]:
        others = some((f"{label} ({n:,})" for label, n in each.confused_with.items()))
        table.add_row(
            Text(_cut(each.label, 30)),
            f"{each.items:,}",
            _share(each.recall),
            f"{each.answers:,}",
            _share(each.precision),
            Text(others, style="dim"),
        )
    hidden = len(classes) - MAX_CLASSES
    if hidden > 0:
        more = "class has" if hidden == 1 else "classes have"
        table.caption = Text(f"{hidden:,} more {more} no more mistakes; --out FILE.json has all.")
    return table


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _cut(text: str, room: int) -> str:
    """Leave out the middle of a long text: paths differ at their ends, sentences at both."""
    half = (room - 1) // 2
    return text if len(text) <= room else f"{text[: room - 1 - half]}…{text[-half:]}"


def _style(marked: bool) -> str:
    return "yellow" if marked else ""
