"""Update the figures in docs/scale.md from the pages they were measured on.

    python bench/scale_figures.py            # writes them
    python bench/scale_figures.py --check    # says which lines are not as measured

Each line with figures is identified by its beginning; the text around the figures is in this
script.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "scale.md"
RESULTS = ROOT / "results" / "scale_out"
BILLION, HOUR, CHUNK, LARGE_CHUNK = 1e9, 3600, 256, 4096


def rows_of(page: Path) -> list[list[str]]:
    """Return the cells of all tables of a page, without separator rows."""
    lines = [line for line in page.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def row_of(page: str, *begin: str) -> list[str]:
    """Return the only row that begins with these cells."""
    (row,) = [each for each in rows_of(RESULTS / page) if each[: len(begin)] == list(begin)]
    return row


def tens(cell: str) -> str:
    """Round a mean and its interval to tens."""
    return " ± ".join(f"{round(float(number), -1):,.0f}" for number in cell.split(" ± "))


def hours(cell: str, *, digits: int = 0) -> str:
    """Return the hours for a billion items at the rate of a cell."""
    return f"{round(BILLION / float(cell.split(' ')[0]) / HOUR, -digits):,.0f}"


def figures() -> dict[str, str]:
    """Return the lines with figures, by how they begin."""
    costs = json.loads((RESULTS / "costs.json").read_text())
    core = row_of("measured.md", "local", "2", "0")[5]
    gpu = row_of("gpu.md", "EfficientNet-B0")[1]
    alone, pool = (row_of("measured.md", each)[1] for each in ("0", "1,000"))
    lines = {
        "| encode, a CPU core (EfficientNet-Lite0, 320 x 320) |": (
            f" {core} images a CPU second, all cores at work | {hours(core, digits=2)} core hours |"
        ),
        "| encode, a GPU (an H200, a network of that shape, decoding left out) |": (
            f" {tens(gpu)} images a second | {hours(gpu)} GPU hours |"
        ),
        "| answer from vectors (1,280 numbers, 50 examples) |": (
            f" {tens(alone)} rows a CPU second | {hours(alone)} core hours |"
        ),
        "| the same with a pool of 1,000 |": (
            f" {tens(pool)} rows a CPU second | {hours(pool)} core hours |"
        ),
        "| memory of the coordinating process |": memory(),
        "- *Measured*:": measured(),
        "- *Predicted*:": predicted(),
        "3. *The coordinating process.*": sharing(costs["dispatch_seconds"]),
    }
    return {begin: begin + rest for begin, rest in lines.items()}


def memory() -> str:
    """Return the line on the memory of the dispatching process."""
    few, many = (row_of("memory.md", each) for each in ("20,000", "200,000"))
    more = int(many[1]) - int(few[1])
    chunks = (int(many[0].replace(",", "")) - int(few[0].replace(",", ""))) / CHUNK
    whole = more / chunks * BILLION / LARGE_CHUNK / 1024
    return (
        f" {few[1]} MiB with {few[0]} rows, {many[1]} MiB with {many[0]} | {more} MiB more for"
        f" {round(chunks, -2):.0f} chunks: up to {whole:.0f} GiB with chunks of {LARGE_CHUNK:,} |"
    )


def measured() -> str:
    """Return the line on the measured rates of one and two workers."""
    rates = {(name, workers): row_of("measured.md", name, workers, "0")[3]
             for name in ("local", "ray") for workers in "12"}  # fmt: skip
    return (
        f" on two free cores processes had {rates['local', '1']} and {rates['local', '2']} images a"
        f" second with one and two workers, actors of Ray {rates['ray', '1']} and"
        f" {rates['ray', '2']}."
    )


def predicted() -> str:
    """Return the line on the simulated rates of one and two workers."""
    said = {(name, workers): row_of("simulated.md", name, workers)[4]
            for name in ("local", "ray") for workers in "12"}  # fmt: skip
    beyond = re.search(r"^Beyond 15%: (.*)\.$", (RESULTS / "simulated.md").read_text(), re.M)
    assert beyond is not None
    return (
        f" {said['local', '1']} and {said['local', '2']} of that for one and two processes,"
        f" {said['ray', '1']} and {said['ray', '2']} for actors;"
        f" {beyond[1]} was off by more than 15 %."
    )


def sharing(seconds: dict[str, Any]) -> str:
    """Return the line on how many images per second the dispatching process can feed."""
    local, ray = (1000 * seconds[name] for name in ("local", "ray"))
    fed = round(CHUNK / seconds["ray"], -4)
    return (
        f" It hands out a chunk in {local:.1f} ms of CPU time, to actors of Ray in {ray:.1f}: with"
        f" chunks of {CHUNK} that feeds some {fed:,.0f} images a second, far beyond"
    )


def main() -> None:
    """Write the lines, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    text = PAGE.read_text()
    wrong = []
    for begin, line in figures().items():
        (there,) = [each for each in text.splitlines() if each.startswith(begin)]
        wrong += [f"{there}\n  is to be\n{line}"] if there != line else []
        text = text.replace(there, line)
    if not check:
        PAGE.write_text(text)
    print("\n".join(wrong) or "All figures are as measured.")
    raise SystemExit(1 if check and wrong else 0)


if __name__ == "__main__":
    main()
