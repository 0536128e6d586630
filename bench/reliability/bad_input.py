"""Fuzz commands and readers: bad input must give a correct answer or one clear sentence.

    python bench/reliability/bad_input.py --out results/reliability/bad_input.md

Intact inputs of every kind are corrupted at random, by seed and number. Some are passed to
commands, each in its own process that may add 3 GiB of memory and use 30 CPU seconds. It is a fault
if the command ends by a signal or with an exit code other than 0, 1 and 2; if it prints a traceback
or another program's warning; if it refuses in anything but one sentence; if it leaves an unexpected
file behind, or an incomplete output. Many more are passed to the readers and the classifier in
Python, 50 per process: there, any error that is not meant for users is a fault. `--only FAMILY
--case NUMBER` runs one command again, and shows it.
"""

import argparse
import csv
import io
import json
import os
import random
import re
import shutil
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from campaign.families.family import Case, Family
from campaign.families.registry import FAMILIES
from campaign.forks import Outcome, command, forked, tree
from campaign.page import Page
from campaign.seed_inputs import Seeds, preload
from campaign.shards import Shard, Workers

from unitail.errors import UserError

CODES = {0: "answered", 1: "answered in part", 2: "refused"}
SECONDS = 30
BATCH = 50
"""Number of inputs read in one process."""
GIVEN = ("commands", "reads")
USUAL = re.compile("DataConversionWarning|mpg123|Xing stream|WeightWarning")
"""Expected warnings: scikit-learn's on labels in a column, the mp3 decoder's, and our own."""


@dataclass(frozen=True)
class Verdict:
    """Verdict on a case."""

    kind: str
    """Answered, answered in part, refused; or the kind of fault."""
    fault: bool
    detail: str = ""


def judge(case: Case, outcome: Outcome, left: dict[str, bytes | None]) -> Verdict:
    """Check that a command ended as it must."""
    message = outcome.stderr.strip()
    last = message.splitlines()[-1] if message else ""
    if outcome.code < 0:
        what = {-14: "hangs", -24: "hangs", -11: "crashes", -9: "is killed"}.get(
            outcome.code, "signal"
        )
        return Verdict(what, True, f"signal {-outcome.code}")
    if "Traceback" in outcome.stderr or outcome.code not in CODES:
        return Verdict("traceback", True, last)
    odd = [line for line in message.splitlines() if "Warning:" in line and not USUAL.search(line)]
    if odd:
        return Verdict("a warning of a library", True, odd[0])
    if outcome.code == 2 and not _is_one_sentence(message):
        return Verdict("not one sentence", True, message[:300])
    return _judge_files(case, outcome, left) or Verdict(CODES[outcome.code], False, last)


def _judge_files(case: Case, outcome: Outcome, left: dict[str, bytes | None]) -> Verdict | None:
    """Check the files that a command left in its folder."""
    new_files = [name for name in left if name not in case.kept]
    if outcome.code == 2 and new_files:
        return Verdict("leaves something behind", True, ", ".join(new_files))
    unfinished = [name for name in left if name.endswith((".new", ".old", ".part"))]
    if unfinished:
        return Verdict("leaves something unfinished", True, ", ".join(unfinished))
    if outcome.code in (0, 1) and case.out is not None:
        wrong = _wrong_answers(left.get(case.out), case.rows)
        if wrong:
            return Verdict("wrong answers", True, wrong)
    return None


def _is_one_sentence(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.strip()]
    messages = [line for line in lines if line.startswith("unitail: ")]
    return text.startswith("Usage:") or (len(messages) >= 1 and lines[-1] in messages)


def _wrong_answers(content: bytes | None, rows: int | None) -> str:
    """Return what is wrong with a file of predictions."""
    if content is None:
        return "no file of answers"
    try:
        answers = list(csv.DictReader(io.StringIO(content.decode(), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        return f"a file that cannot be read: {error}"
    if rows is not None and len(answers) != rows:
        return f"{len(answers)} rows of {rows}"
    for row in answers:
        probabilities = [
            value for name, value in row.items() if name and name.endswith("probability")
        ]
        if probabilities and probabilities[-1] and not 0 <= float(probabilities[-1]) <= 1:
            return f"a probability of {probabilities[-1]}"
    return ""


def run_command(make: Family, seeds: Seeds, name: str, place: Path) -> tuple[Verdict, Outcome]:
    """Make a case, run its command in a fork, and judge it."""
    folder = place / "work"
    folder.mkdir(parents=True)
    case = make(seeds, folder, random.Random(name))
    case.kept.update(tree(folder))
    work: Callable[[], object] = case.work or command(*case.arguments)
    outcome = forked(work, place / "log", folder=folder, seconds=SECONDS)
    return judge(case, outcome, tree(folder)), outcome


def read_one(make: Family, seeds: Seeds, name: str, place: Path) -> tuple[str, str]:
    """Make a case and read it in this process; return the verdict and the fault, if any."""
    place.mkdir()
    case = make(seeds, place, random.Random(name))
    assert case.read is not None
    started = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            case.read()
        kind = "answered"
    except UserError as error:
        kind = "refused" if "\n" not in str(error).strip() else "not one sentence"
    except BaseException as error:
        ours = make.name == "estimator" and isinstance(error, ValueError | TypeError)
        if not (ours and str(error).strip()):
            line = traceback.extract_tb(error.__traceback__)[-1]
            return "faults", f"{type(error).__name__}: {error} ({line.filename}:{line.lineno})"
        kind = "refused"
    return (kind, "") if time.process_time() - started < SECONDS else ("faults", "hangs")


def read_batch(
    make: Family, seeds: Seeds, names: Sequence[str], place: Path
) -> tuple[Counter[str], list[str], Outcome]:
    """Read some inputs in one fork; count the verdicts and list the faults."""
    notes = place / "notes.jsonl"

    def work() -> None:
        with notes.open("w", buffering=1) as file:
            for number, name in enumerate(names):
                result = read_one(make, seeds, name, place / str(number))
                file.write(json.dumps([name, *result]) + "\n")

    outcome = forked(work, place / "log", seconds=SECONDS * 20)
    rows = [json.loads(line) for line in notes.read_text().splitlines()]
    faults = [f"{name}: {fault}" for name, kind, fault in rows if fault]
    if outcome.code != 0:  # the input after the last that was noted
        faults.append(f"{names[len(rows)]}: ends by {outcome.code} {outcome.stderr[-200:]}")
        rows += [["", "faults", ""]]
    return Counter(kind for _, kind, _ in rows), faults, outcome


def main() -> None:
    """Run all families, and write a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commands", type=int, default=400, help="approximate number in all")
    parser.add_argument("--reads", type=int, default=250, help="of each family that has readers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--case", type=int)
    parser.add_argument("--workers", type=int, default=1, help="inputs that are tried at once")
    parser.add_argument("--minutes", type=float, default=600, help="after which none is begun")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    csv.field_size_limit(2**31 - 1)  # cells may be as long as a text
    chosen = [each for each in FAMILIES if not args.only or each.name in args.only]
    encoders = {name for each in chosen for name in each.encoders}
    preload(*sorted(encoders))
    settings = {name: getattr(args, name) for name in ("commands", "reads", "seed", "only")}
    with tempfile.TemporaryDirectory() as name:
        os.environ["UNITAIL_CACHE"] = f"{name}/cache"
        kinds = {"recipes", *(kind for each in chosen for kind in each.seeds)}
        seeds = Seeds.make(Path(name) / "seeds", *sorted(kinds))
        if "efficientnet-lite0" in encoders:
            _fill_cache(seeds, Path(name))
        if args.case is not None:
            _show(chosen[0], seeds, args, Path(name))
            return
        workers = Workers(Path(name), args.workers, args.out.with_suffix(".jsonl"), settings,
                    args.minutes)  # fmt: skip
        shards = {each: _shards(each, seeds, args) for each in chosen}
        results = workers.run([shard for each in shards.values() for shard in each])
    faults = _write_page(args.out, shards, results)
    if len(results) == sum(map(len, shards.values())):
        workers.finish()
    raise SystemExit(1 if faults else 0)


def _write_page(
    out: Path, shards: Mapping[Family, Sequence[Shard]], results: Mapping[str, Any]
) -> int:
    """Write a row for each family; return the number of faults."""
    page = Page(out, "Bad input", "Spoiled inputs of every kind.")
    page.table(["family", "given to commands", "read in Python", *CODES.values(), "faults",
                "longest, s", "most memory, MiB"])  # fmt: skip
    totals: Counter[str] = Counter()
    for make, each in shards.items():
        records = [results[shard.name] for shard in each if shard.name in results]
        counts = sum((Counter(record["counts"]) for record in records), Counter[str]())
        given = {what: sum(record.get(what, 0) for record in records) for what in GIVEN}
        longest = max((record["seconds"] for record in records), default=0.0)
        peak = max((record["peak"] for record in records), default=0)
        cells = [counts[kind] for kind in (*CODES.values(), "faults")]
        page.row(make.title, *given.values(), *cells, f"{longest:.1f}", peak // 2**20)
        for fault in (fault for record in records for fault in record["faults"]):
            print(fault[:400], flush=True)
        totals.update(**given, faults=counts["faults"])
    page.text(f"In all {totals['commands']:,} given to commands and {totals['reads']:,} read in"
              f" Python; faults: {totals['faults']}. The longest is a command.")  # fmt: skip
    return totals["faults"]


def _fill_cache(seeds: Seeds, root: Path) -> None:
    """Encode the intact images once, because cases compare against them repeatedly."""
    arguments = ("fit", seeds.folder / "images", "--save", root / "filled")
    assert forked(command(*arguments), root / "log", memory=None).code == 0


def _show(make: Family, seeds: Seeds, args: argparse.Namespace, root: Path) -> None:
    """Run one command again and print it."""
    name = f"{args.seed} {make.name} {args.case}"
    verdict, outcome = run_command(make, seeds, name, root / "place")
    print(verdict, outcome.code, outcome.stdout, outcome.stderr, sep="\n")
    raise SystemExit(1 if verdict.fault else 0)


def _shards(make: Family, seeds: Seeds, args: argparse.Namespace) -> list[Shard]:
    """Split a family into shards."""
    commands = -(-args.commands * make.weight // sum(each.weight for each in FAMILIES))
    reads = args.reads if make.reads else 0
    return [
        *(
            Shard(f"{make.name} {first}", partial(_try_commands, make, seeds, [
                f"{args.seed} {make.name} {n}" for n in range(first, min(first + 5, commands))
            ]))
            for first in range(0, commands, 5)
        ),
        *(
            Shard(f"{make.name} read {first}", partial(_try_reads, make, seeds, [
                f"{args.seed} {make.name} read {n}" for n in range(first, min(first + BATCH, reads))
            ]))
            for first in range(0, reads, BATCH)
        ),
    ]  # fmt: skip


def _try_commands(make: Family, seeds: Seeds, names: Sequence[str], place: Path) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    faults, seconds, peak = [], 0.0, 0
    for number, name in enumerate(names):
        verdict, outcome = run_command(make, seeds, name, place / str(number))
        shutil.rmtree(place / str(number))
        counts["faults" if verdict.fault else verdict.kind] += 1
        seconds, peak = max(seconds, outcome.seconds), max(peak, outcome.peak)
        if verdict.fault:
            faults.append(f"{name}: {verdict.kind}: {verdict.detail[:300]}")
    return {"commands": len(names), "counts": counts, "faults": faults, "seconds": seconds,
            "peak": peak}  # fmt: skip


def _try_reads(make: Family, seeds: Seeds, names: Sequence[str], place: Path) -> dict[str, Any]:
    counts, faults, outcome = read_batch(make, seeds, names, place)
    return {"reads": counts.total(), "counts": counts, "faults": faults,
            "seconds": 0.0, "peak": outcome.peak}  # fmt: skip


if __name__ == "__main__":
    main()
