"""Run `unitail predict`, and print its answers and their scores."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from unitail.answer_defaults import DOUBTFUL, NOVEL
from unitail.cli.console import (
    bar,
    bars,
    print_cache_trouble,
    print_encoder,
    print_examples,
    print_lines,
    report_unreadable,
)
from unitail.cli.pipes import NoOutput
from unitail.cli.sorting import Sorting
from unitail.encoders.cache import FeatureCache, default_cache
from unitail.encoders.encoder import Modality
from unitail.errors import InvalidConfig, UserError
from unitail.estimator.classifier import TailClassifier
from unitail.inputs.items import Items, LabelledItems, ReadOptions, apply_corrections
from unitail.inputs.read import check_columns, read_half_labelled, read_unlabelled
from unitail.processes import launched
from unitail.wording import numbered, shown, some
from unitail.workflows.answer_files import (
    STDOUT,
    SUFFIXES,
    check_rows,
    check_target,
    write_answers,
)
from unitail.workflows.answers import Answers, AnswerScores, State, score
from unitail.workflows.fit import ClassifierOptions, read_examples
from unitail.workflows.html_report.page import MAX_CARDS, NOUNS, PAGES, write_html_report
from unitail.workflows.predict import PredictOptions, predict_files
from unitail.workflows.sort_files import Step, check_sorting, require_files

MAX_ON_SCREEN = 30
"""Largest number of answers on the screen."""
MIN_PROBABILITY = 0.005
"""Classes of a lower probability are not listed."""
MAX_CLASSES = 12
"""Largest number of classes in the table of scores: those with most mistakes."""


@dataclass(frozen=True, kw_only=True)
class PredictCall:
    """What `unitail predict` is to do, whether in this process or with workers."""

    examples: Path
    """EXAMPLES; with a saved classifier the first of FILES."""
    files: Sequence[str]
    also: Sequence[Path]
    pool: Sequence[str]
    reading: ReadOptions
    classifier: ClassifierOptions
    wanted: PredictOptions
    use_cache: bool

    def begin(self) -> tuple[TailClassifier | None, LabelledItems, Sequence[str]]:
        """Check the options; return the saved classifier, if any, the examples and the files."""
        _require_alone()
        self.classifier.check(pool=bool(self.pool))
        saved = self.classifier.load_saved()
        given: list[Path | str] = [*self.also, *self.files, *self.pool]
        if saved is None:
            check_columns(self.reading, self.examples, given)
        else:
            check_columns(self.reading, None, [self.examples, *given])
        examples = read_examples(self.examples, self.reading, also=self.also, saved=saved)
        return saved, examples, self.files if saved is None else [str(self.examples), *self.files]

    def cache(self, examples: LabelledItems) -> FeatureCache | None:
        """Return the user's cache if it is wanted, and anything is encoded."""
        return default_cache() if self.use_cache and examples.need_encoders else None


def _require_alone() -> None:
    """Refuse to run under a launcher, where each process would do all of the command's work."""
    count = launched()
    if count > 1:
        raise InvalidConfig(
            "`unitail predict` does not share its work with processes of a launcher",
            got=f"{count} processes",
            allowed="one process",
            remedy=f"Run `unitail predict ... --workers {count}`, without torchrun.",
        )


def print_inputs(
    console: Console, examples: LabelledItems, items: Items, pool: Items | None = None
) -> None:
    """Print what was recognised among the inputs, and what was skipped."""
    pooled = "" if pool is None else f", a pool of {len(pool):,} without labels"
    print_examples(console, examples, f", {len(items):,} to answer{pooled}")
    new = [note for note in dict.fromkeys(items.guesses) if note not in examples.guesses]
    print_lines(console, *(f"Note: {note}." for note in new))
    noun = "rows" if items.modality is Modality.TABLE else "files"
    print_lines(console, *(f"Skipped among the {noun}: {note}." for note in items.skipped))


def print_answers(console: Console, answers: Answers) -> None:
    """Print the least certain answers, and the number of all answers."""
    print_encoder(console, answers.encoder, answers.num_cached, answers.notes)
    repeated = answers.repeated
    if repeated:
        equal = "equals" if len(repeated) == 1 else "equal"
        count = numbered(len(repeated), NOUNS[answers.modality])
        print_lines(console, f"{count} {equal} an example ({repeated[0]}).")
    if answers.answers:
        console.print(_answer_table(answers, room=console.width // 4))
        if answers.why:
            console.print(_why_table(answers, room=console.width // 4))


def print_scores(console: Console, scores: AnswerScores) -> None:
    """Print the accuracy of the answers, overall and for each class."""
    low, high = scores.interval
    without = (
        f" {numbered(scores.num_repeated, 'item')} equal to an example"
        f" {'is' if scores.num_repeated == 1 else 'are'} not counted."
        if scores.num_repeated
        else ""
    )
    print_lines(
        console,
        f"{numbered(scores.num_items, 'item')} with a label: {scores.num_right:,} correct,"
        f" {scores.accuracy:.1%} (95 % interval {low:.1%} to {high:.1%}).{without}",
    )
    console.print(_score_table(scores))


def _answer_table(answers: Answers, room: int) -> Table:
    """Return a table of the least certain answers; names are never interpreted as markup."""
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
    for answer in answers.by_uncertainty()[:MAX_ON_SCREEN]:
        runners_up = [f"{label} ({p:.0%})" for label, p in answer.top[1:] if p >= MIN_PROBABILITY]
        doubtful = answer.probability < DOUBTFUL
        table.add_row(
            Text(_cut(answer.name, room)),
            Text(_cut(answer.label, room), style="bold"),
            Text(f"{'? ' if doubtful else ''}{answer.probability:.0%}", _style(doubtful)),
            Text(", ".join(runners_up), style="dim", no_wrap=True, overflow="ellipsis"),
            Text(str(len(answer.members))),
            Text(f"{answer.novelty:.2f}", _style(answer.state is State.NOVEL)),
        )
    hidden = len(answers.answers) - MAX_ON_SCREEN
    more = f" Not shown: {hidden:,} more certain." if hidden > 0 else ""
    table.caption = Text(
        f"{numbered(len(answers.answers), 'answer')}, the least certain first.{more}"
        f" ?: doubtful, below {DOUBTFUL:.0%}."
        f" set: number of classes in the prediction set, which contains the true class in"
        f" {answers.coverage:.0%} of cases."
        f" novelty: from {NOVEL}, the item may belong to none of the classes."
    )
    return table


def _why_table(answers: Answers, room: int) -> Table:
    """Return a table of the examples and columns that support the least certain answers."""
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
    for answer in answers.by_uncertainty()[:MAX_ON_SCREEN]:
        examples = [
            f"{_cut(reason.name, room)} ({reason.label}, {reason.share:.0%})"
            for reason in answer.because
        ]
        named = [f"{name} ({share:.0%})" for name, share in answer.because_columns]
        table.add_row(
            Text(_cut(answer.name, room)),
            Text(_cut(answer.label, room), style="bold"),
            Text("\n".join(examples)),
            *([Text("\n".join(named))] if columns else []),
        )
    table.caption = Text("Percentages are shares of the total support for the answer.")
    return table


def _score_table(scores: AnswerScores) -> Table:
    """Return a table of the classes with most mistakes."""
    table = Table(
        Column("class", no_wrap=True),
        Column("items", justify="right"),
        Column("recognised", justify="right"),
        Column("answers", justify="right"),
        Column("correct", justify="right"),
        Column("mistaken for"),
        box=box.SIMPLE_HEAD,
        show_edge=False,
        caption_justify="left",
    )
    classes = sorted(scores.by_class(), key=lambda each: each.right - each.items)
    for each in classes[:MAX_CLASSES]:
        mistakes = some((f"{label} ({n:,})" for label, n in each.confused_with.items()))
        table.add_row(
            Text(_cut(each.label, 30)),
            f"{each.items:,}",
            _share(each.recall),
            f"{each.answers:,}",
            _share(each.precision),
            Text(mistakes, style="dim"),
        )
    hidden = len(classes) - MAX_CLASSES
    if hidden > 0:
        more = "class has" if hidden == 1 else "classes have"
        table.caption = Text(
            f"{hidden:,} more {more} no more mistakes than these; --out FILE.json lists all."
        )
    return table


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _cut(text: str, room: int) -> str:
    """Shorten a long text in the middle: paths differ at their ends, sentences at both."""
    half = (room - 1) // 2
    return text if len(text) <= room else f"{text[: room - 1 - half]}…{text[-half:]}"


def _style(marked: bool) -> str:
    return "yellow" if marked else ""


@dataclass(frozen=True)
class Outputs:
    """Everything to do with the answers: files to write, and files to sort."""

    out: Path | None
    report: Path | None
    sorting: Sorting | None

    def check(self, inputs: Sequence[Path]) -> None:
        """Raise an error if an output cannot be written, before any work is done."""
        if self.out == STDOUT and isinstance(sys.stdout, NoOutput):
            raise UserError(
                "standard output is closed",
                got="--out -",
                allowed="an open standard output",
                remedy="Name a file, such as --out answers.jsonl.",
            )
        for path, suffixes in ((self.out, SUFFIXES), (self.report, PAGES)):
            if path is not None and path != STDOUT:
                check_target(path, *suffixes)
        if self.sorting is not None:
            check_sorting(self.sorting.target, inputs)

    def check_items(self, items: Items) -> None:
        """Raise an error for items that cannot be written or sorted, before they are answered."""
        if self.sorting is not None:
            require_files(items)
        if self.out is not None:
            check_rows(self.out, items)

    def make(
        self, answers: Answers, items: Items, examples: LabelledItems, label_column: str, title: str
    ) -> tuple[list[Step], list[Step]]:
        """Sort the files, then write the answers and the report with their new paths.

        Returns the steps done, and those that failed because their file had vanished.
        """
        steps, vanished = list[Step](), list[Step]()
        if self.sorting is not None:
            steps, vanished, items = self.sorting.sort(answers, items)
        if self.out is not None:
            write_answers(answers, items, self.out, label_column=label_column)
        if self.report is not None:
            with bar("drawing", min(len(answers.answers), MAX_CARDS)) as on_progress:
                write_html_report(
                    answers,
                    items,
                    self.report,
                    title=title,
                    examples=examples,
                    label_column=label_column,
                    on_progress=on_progress,
                )
        return steps, vanished

    def show(self, console: Console, answers: Answers, items: Items, steps: Sequence[Step]) -> None:
        """Print the results, after all files are written: standard output may be a closed pipe."""
        print_answers(console, answers)
        scores = score(answers, items)
        if scores is not None:
            print_scores(console, scores)
        if self.out is not None and self.out != STDOUT:
            print_lines(console, f"All answers are in {self.out}.")
        if self.report is not None:
            print_lines(console, f"The report is {self.report}.")
        if self.sorting is not None:
            self.sorting.show(console, steps)


def run(call: PredictCall, outputs: Outputs) -> None:
    """Read the examples and items, answer, write the outputs, and print the results."""
    outputs.check([call.examples, *call.also, *map(Path, call.files)])
    console = Console(stderr=outputs.out == STDOUT)
    saved, examples, files = call.begin()
    examples, items = _read_items(call, examples, [Path(file) for file in files])
    pool_paths = [Path(each) for each in call.pool]
    # Without corrections, and with items that are labelled: a pool should be a plain sample.
    pool = read_unlabelled(pool_paths, call.reading, like=examples) if pool_paths else None
    outputs.check_items(items)
    print_inputs(console, examples, items, pool)
    cache = call.cache(examples)
    count = len(examples) + len(items) + len(pool or ())
    with bars("encoding", "answering", "explaining", total=count) as callbacks:
        on_progress, on_answered, on_explained = callbacks
        answers = predict_files(
            examples,
            items,
            call.classifier,
            call.wanted,
            saved=saved,
            pool=pool,
            cache=cache,
            on_progress=on_progress,
            on_answered=on_answered,
            on_explained=on_explained,
        )
    source = call.examples.name if saved is None else Path(call.classifier.model).name
    title = f"Answers from {source}"
    steps, vanished = outputs.make(answers, items, examples, call.reading.label_column, title)
    outputs.show(console, answers, items, steps)
    print_cache_trouble(cache)
    report_unreadable(
        [f"{item.name} ({item.among}): {item.reason}" for item in answers.unreadable]
        + [f"{shown(step.source)}: has vanished, and was not sorted" for step in vanished],
        all_in="--out FILE.json or --report lists all",
    )


def _read_items(
    call: PredictCall, examples: LabelledItems, files: Sequence[Path]
) -> tuple[LabelledItems, Items]:
    """Read the items to answer; without files, these are the unlabelled part of the examples."""
    if files:
        items = read_unlabelled(files, call.reading, like=examples)
    else:
        items = read_half_labelled(call.examples, examples, call.reading)
        examples = replace(examples, unlabelled=())  # they are not skipped
    return examples, apply_corrections(items, examples)
