"""Report a learning curve on a user's own data: in sentences, as a table, and in files."""

import csv
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unitail.errors import CannotWrite, optional
from unitail.files import disk_errors, write_bytes, write_json, write_text
from unitail.learners.registry import LEARNERS
from unitail.wording import numbered
from unitail.workflows.learning_curve.curve import Level, OwnCurve
from unitail.workflows.learning_curve.data import OwnData
from unitail.workflows.learning_curve.interval import Estimate
from unitail.workflows.learning_curve.plot import plot_curve

OURS = LEARNERS["unitail"].label
"""Name of the learner that the sentences are about."""
USUAL_SHOTS = 5
"""The sentences report the largest measured number of shots up to this one."""
MAX_CONFUSIONS = 5
MAX_SUSPICIOUS = 10
"""Largest number of suspicious labels in the sentences; the file has all."""
DIGITS = 4
MAX_LOPSIDED = 0.5
"""Below this ratio of an interval's shorter side to its longer one, ± would be misleading."""


@dataclass(frozen=True)
class Line:
    """One point of a curve: measured by random splits or leave-one-out, or a forecast."""

    how: str
    examples: float
    """Examples per class in the support, on average."""
    splits: int
    learner: str
    accuracy: Estimate
    spread: float | None
    """Standard deviation from one support to another; None for a forecast."""


def lines(curve: OwnCurve) -> Iterator[Line]:
    """Yield all points of the curve, level by level."""
    for place, level in enumerate(curve.levels):
        how = "leave-one-out" if level.shots is None else "random splits"
        for name in [name for name in curve.learners if name in level.answers]:
            accuracy, spread = curve.accuracy(name)[place], curve.spread(name)[place]
            yield Line(how, level.shots_on_average, level.count, name, accuracy, spread)
    for name in [name for name in curve.learners if name in curve.levels[-1].answers]:
        twice = 2 * curve.levels[-1].shots_on_average
        yield Line("forecast", twice, 0, name, curve.forecast(name), None)


def sentences(curve: OwnCurve, data: OwnData) -> list[str]:
    """Summarise a curve: the accuracy now and with more examples, confusions, wrong labels."""
    if OURS in curve.failures:
        return [f"{OURS} cannot solve this task: {curve.failures[OURS]}"]
    few = max(
        (place for place, level in enumerate(curve.levels) if (level.shots or 0) <= USUAL_SHOTS),
        key=lambda place: curve.levels[place].shots or 0,
    )
    accuracy, last, forecast = curve.accuracy(OURS), curve.levels[-1], curve.forecast(OURS)
    everything = last.shots_on_average
    return [
        f"With {_examples(curve.levels[few])} per class, the accuracy is about"
        f" {percent(accuracy[few])}.",
        *_comparisons(curve, few),
        f"With all but one example of each class ({everything:.3g} per class), it is about"
        f" {percent(accuracy[len(curve.levels) - 1])}.",
        f"With twice as many ({2 * everything:.3g} per class), it would be about"
        f" {100 * forecast.mean:.0f} % ({100 * forecast.low:.0f} to {100 * forecast.high:.0f}).",
        *_confusions(curve, data),
        *_suspicious(curve, data),
    ]


def percent(accuracy: Estimate) -> str:
    """Format an accuracy with ±, or with its bounds if the interval is lopsided."""
    low, mean, high = (100 * each for each in (accuracy.low, accuracy.mean, accuracy.high))
    shorter, longer = sorted((mean - low, high - mean))
    if shorter < MAX_LOPSIDED * longer:
        return f"{mean:.0f} % ({low:.0f} to {high:.0f})"
    return f"{mean:.0f} % ± {max(1, round(longer))}"


def as_csv(curve: OwnCurve) -> str:
    """Return the curve as CSV, one line per point."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_HEADER)
    writer.writerows(_cells(line).values() for line in lines(curve))
    return file.getvalue()


def as_json(curve: OwnCurve, data: OwnData) -> dict[str, Any]:
    """Return all numbers and sentences, ready for JSON."""
    counts = dict(zip(data.classes, data.rows.shots.tolist(), strict=True))
    return {
        "modality": str(data.modality),
        "encoder": data.encoder,
        "examples": counts,
        "sentences": sentences(curve, data),
        "curve": [_cells(line) for line in lines(curve)],
        "confusions": [
            {"true": data.classes[true], "answer": data.classes[answer], "count": count}
            for true, answer, count in curve.confusions(OURS)
        ],
        "suspicious": [
            {
                "name": _name(data, each.place),
                "label": each.label,
                "likely": each.likely,
                "label_probability": round(each.label_probability, DIGITS),
                "likely_probability": round(each.likely_probability, DIGITS),
            }
            for each in curve.suspicious(OURS, data.classes)
        ],
        "cannot": dict(curve.failures),
        "unreadable": [{"name": item.name, "reason": item.reason} for item in data.unreadable],
        "notes": list(data.notes),
    }


def check_folder(folder: Path) -> None:
    """Raise an error, before any work is done, if the files cannot be plotted and written."""
    optional("matplotlib", extra="report")
    if folder.exists() and not folder.is_dir():
        raise CannotWrite(
            f"{folder} is not a folder",
            got="a file of that name",
            allowed="a folder, new or existing",
            remedy="Name a folder.",
        )
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(f"no permission to write to {folder}")


def write_curve(curve: OwnCurve, data: OwnData, folder: Path) -> None:
    """Write curve.csv, curve.json and curve.png, each atomically."""
    picture = plot_curve(list(lines(curve)), f"{len(data.classes)} classes, {data.encoder}")
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / "curve.csv", as_csv(curve))
        write_json(folder / "curve.json", as_json(curve, data))
        write_bytes(folder / "curve.png", picture)


_HEADER = ("how", "examples", "splits", "learner", "accuracy", "low", "high", "spread")


def _cells(line: Line) -> dict[str, Any]:
    spread = None if line.spread is None else round(line.spread, DIGITS)
    accuracy = line.accuracy
    numbers = [round(each, DIGITS) for each in (accuracy.mean, accuracy.low, accuracy.high)]
    cells = (line.how, round(line.examples, 2), line.splits, line.learner, *numbers, spread)
    return dict(zip(_HEADER, cells, strict=True))


def _comparisons(curve: OwnCurve, place: int) -> Iterator[str]:
    """Yield a sentence for each other learner, compared on the same queries."""
    level: Level = curve.levels[place]
    for name in [name for name in level.answers if name != OURS]:
        lead = curve.lead(OURS, name)[place]
        points = f"{100 * lead.mean:+.1f} ± {100 * lead.half_width:.1f} points"
        is_clear = lead.low > 0 or lead.high < 0
        verdict = ("ahead" if lead.mean > 0 else "behind") if is_clear else "no clear difference"
        accuracy = curve.accuracy(name)[place].mean
        yield f"On the same splits, {name}: {100 * accuracy:.0f} % ({OURS}: {verdict}, {points})."


def _confusions(curve: OwnCurve, data: OwnData) -> Iterator[str]:
    confusions = curve.confusions(OURS)[:MAX_CONFUSIONS]
    sizes = data.rows.shots
    if confusions:
        pairs = (
            f"{data.classes[true]} answered as {data.classes[answer]} ({count} of {sizes[true]})"
            for true, answer, count in confusions
        )
        yield f"Most frequent mistakes: {', '.join(pairs)}."


def _suspicious(curve: OwnCurve, data: OwnData) -> Iterator[str]:
    """List the labels that may be wrong."""
    flagged = curve.suspicious(OURS, data.classes)
    if flagged:
        more = len(flagged) - MAX_SUSPICIOUS
        note = f" (the {MAX_SUSPICIOUS} least probable; --out lists all)" if more > 0 else ""
        yield f"{numbered(len(flagged), 'label')} may be wrong, please check{note}:"
    for each in flagged[:MAX_SUSPICIOUS]:
        likely = f"{each.likely} ({each.likely_probability:.0%})"
        yield f"  {_name(data, each.place)} is labelled {each.label}, looks like {likely}"


def _name(data: OwnData, place: int) -> str:
    return data.names[place] if data.names else f"example {place + 1}"


def _examples(level: Level) -> str:
    """Describe the number of examples per class, with the mean if small classes give fewer."""
    shots = level.shots or 1
    if level.shots_on_average < shots:
        return f"up to {shots} examples ({level.shots_on_average:.3g} on average)"
    return numbered(shots, "example")
