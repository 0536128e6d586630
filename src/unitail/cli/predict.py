"""Run `unitail predict`."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from unitail.cli.console import bar, say, say_trouble, say_unreadable
from unitail.cli.predict_screen import tell_answers, tell_inputs, tell_scores
from unitail.cli.sorting import Sorting
from unitail.configuration import require
from unitail.encoders.cache import default_cache
from unitail.inputs.items import Items, LabelledItems
from unitail.inputs.join import settle
from unitail.inputs.read import read_half_labelled, read_labelled, read_unlabelled
from unitail.workflows.answer_files import STDOUT, SUFFIXES, check_target, write_answers
from unitail.workflows.answers import Answers
from unitail.workflows.fit import load_saved, remembered_examples
from unitail.workflows.html_report.page import MAX_CARDS, write_html_report
from unitail.workflows.predict import check_options, predict_files
from unitail.workflows.scores import score

PAGES = (".html", ".htm")


def run(
    support: Path,
    queries: Sequence[Path],
    *,
    also: Sequence[Path],
    modality: str | None,
    label_column: str,
    content_column: str | None,
    out: Path | None,
    report: Path | None,
    sorting: Sorting,
    use_cache: bool,
    encoder: str | None,
    model: str,
    joint: bool,
    balanced: bool,
    top: int,
    coverage: float,
    device: str,
) -> None:
    """Read, answer, write the files that are wanted, and print."""
    check_options(model, joint=joint, balanced=balanced)
    _check_targets(out, report)
    sorting.check([support, *also, *queries])
    console = Console(stderr=out == STDOUT)
    saved = load_saved(model, joint=joint, balanced=balanced, encoder=encoder, device=device)
    if saved is not None:  # there are no examples to name, so what is named first is to be answered
        require(not also, "--also", got="a model of `unitail fit`", allowed="with examples only")
        queries, support = [support, *queries], Path(model)
        examples = remembered_examples(saved)
    else:
        examples = read_labelled(
            support,
            also=also,
            label_column=label_column,
            content_column=content_column,
            modality=modality,
        )
    asked = _read_queries(support, queries, examples, label_column, content_column, modality)
    items = settle(asked, examples)
    sorting.check_items(items)
    tell_inputs(console, examples, items)
    cache = default_cache() if use_cache else None
    with bar("encoding", len(examples) + len(items)) as on_progress:
        answers = predict_files(
            examples,
            items,
            encoder=encoder,
            model=model,
            saved=saved,
            joint=joint,
            balanced=balanced,
            coverage=coverage,
            top=top,
            cache=cache,
            device=device,
            on_progress=on_progress,
        )
    if out is not None:
        write_answers(answers, items, out, label_column=label_column)
    if report is not None:
        _write_report(
            answers, items, examples, report, label_column, f"Answers from {support.name}"
        )
    sorted_files = sorting.sort(answers, items)
    _tell(console, answers, items, out, report)
    sorting.tell(console, sorted_files)
    say_trouble(cache)
    say_unreadable(
        [f"{item.name} ({item.among}): {item.reason}" for item in answers.unreadable],
        all_in="--out FILE.json or --report lists all",
    )


def _check_targets(out: Path | None, report: Path | None) -> None:
    for path, suffixes in ((out, SUFFIXES), (report, PAGES)):
        if path is not None and path != STDOUT:
            check_target(path, *suffixes)


def _read_queries(
    support: Path,
    queries: Sequence[Path],
    examples: LabelledItems,
    label_column: str,
    content_column: str | None,
    modality: str | None,
) -> Items:
    """Read what is to be answered: what is named, or else what has no label beside the examples."""
    if not queries:
        return read_half_labelled(
            support, examples, label_column=label_column, content_column=content_column
        )
    return read_unlabelled(
        queries,
        label_column=label_column,
        content_column=content_column,
        modality=modality,
        like=examples,
    )


def _write_report(
    answers: Answers,
    items: Items,
    examples: LabelledItems,
    path: Path,
    label_column: str,
    title: str,
) -> None:
    with bar("drawing", min(len(answers.answers), MAX_CARDS)) as on_progress:
        write_html_report(
            answers,
            items,
            path,
            title=title,
            examples=examples,
            label_column=label_column,
            on_progress=on_progress,
        )


def _tell(
    console: Console, answers: Answers, items: Items, out: Path | None, report: Path | None
) -> None:
    """Say what came out: only after all files are written, as the screen may be a closed pipe."""
    tell_answers(console, answers)
    scores = score(answers, items)
    if scores is not None:
        tell_scores(console, scores)
    if out is not None and out != STDOUT:
        say(console, f"All answers are in {out}.")
    if report is not None:
        say(console, f"Look at {report}.")
