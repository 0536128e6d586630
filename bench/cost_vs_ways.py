"""Time and memory of all learners against the number of classes (paper, figure 3).

In one run: 1-shot tasks of K classes with 16 queries each, features 1280 wide. Predicting one
episode is timed for every learner, and a training step on one episode for the meta-trained ones,
with the peak device memory; the default model runs as shipped, in single precision. All use the
same attention kernels, without cuDNN's, which fail in one of SNAIL's backward passes (torch 2.11).
Running out of memory, or too few class slots, is a result and not an error. All queries are
predicted at once rather than in chunks, which makes models that process a sequence per query look
most expensive. `tail_uncached` re-reads the support for every query, like the others. The cost of a
thousand episodes is a thousand times that of one; the number of classes where two learners cost the
same is interpolated.

    python bench/cost_vs_ways.py --device cuda --out results/cost_vs_ways
"""

import argparse
import gc
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from measuring.cost_vs_ways_report import OUT_OF_MEMORY, cells, crossing, plot
from measuring.page import Page
from measuring.timing import device_name, seconds
from torch.nn.attention import SDPBackend, sdpa_kernel

from unitail.errors import CannotSolve
from unitail.framework.episode import Episode
from unitail.learners.in_context import InContextLearner
from unitail.learners.registry import SHIPPED, build_model, explicit_learners, model_config
from unitail.nn.episode_model import AnyModel, Visibility
from unitail.randomness import stream
from unitail.training.step import query_loss

WAYS = (5, 10, 20, 30, 50, 70, 100)
WIDTH = 1280
QUERIES = 16
MODELS: dict[str, dict[str, Any]] = {
    "tail_isolated": {"learner": "tail", "visibility": "isolated"},
    "tail_joint": {"learner": "tail", "visibility": "joint"},
    "tail_uncached": {"learner": "tail", "visibility": "isolated"},
    "snail": {"learner": "snail", "classes": 100, "most_support": 100},
    "gpicl": {"learner": "gpicl", "classes": 100, "positions": 101}
    | {"hidden_dim": 1536, "layers": 16, "heads": 16, "mlp_dim": 3072},
    "caml": {"learner": "caml", "classes": 100},
}
"""Models at published size (GPICL at TAIL's), all with room for 100 classes."""
SMALL_WIDTH = 32
SMALL: dict[str, dict[str, Any]] = {
    "tail": {"projected_dim": 32, "label_dim": 16, "hidden_dim": 32, "mlp_dim": 32},
    "snail": {"feature_dim": 32, "key_dims": [8], "value_dims": [8], "filters": 8},
    "gpicl": {"projected_dim": 32, "hidden_dim": 32, "mlp_dim": 32},
    "caml": {"feature_dim": 32, "mlp_dim": 32},
}
"""Overrides of widths and networks for a trial without a GPU."""
FEW_LAYERS = {"layers": 2, "heads": 2}
UNCACHED = "tail_uncached"
OURS = ("tail_joint", "tail_isolated")
EPISODES = 1000
"""Number of episodes in the paper."""
KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def episode_of(ways: int, width: int, device: torch.device) -> Episode:
    """Return one random 1-shot episode."""
    generator = stream(0, ways)
    classes = torch.arange(ways)
    features = torch.randn(ways * (1 + QUERIES), width, generator=generator)
    return Episode.from_arrays(
        features[:ways], classes, features[ways:], classes.repeat_interleave(QUERIES)
    ).to(device)


def measure(work: Callable[[], object], device: torch.device, repeats: int) -> dict[str, Any]:
    """Time `work` after a warm-up and record the peak memory; failures are results too."""
    _clean(device)
    try:
        spent = seconds(work, repeats, device)
    except torch.OutOfMemoryError:
        return {"failed": OUT_OF_MEMORY}
    except CannotSolve as error:
        return {"failed": f"cannot: {error.wrong}"}
    peak = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else None
    return {"milliseconds": 1e3 * spent, "gibibytes": peak}


def _clean(device: torch.device) -> None:
    if device.type == "cuda":  # elsewhere no peak is noted
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def rows(args: argparse.Namespace, device: torch.device) -> Iterator[dict[str, Any]]:
    """Measure every learner at every number of classes."""
    width = SMALL_WIDTH if args.small else WIDTH
    shipped = {name: SHIPPED[name].build(device) for name in ("unitail", "unitail_joint")}
    for name, learner in (explicit_learners() | shipped).items():
        for ways in args.ways:
            episode = episode_of(ways, width, device)

            def answer(episode: Episode = episode, learner: Any = learner) -> object:  # noqa: ANN401
                return learner.infer(episode.support, episode.query.features)

            yield {"learner": name, "ways": ways, "what": "test"} | measure(
                answer, device, args.repeats
            )
    for name, table in MODELS.items():
        model = build_model(model_config(shrunk(table) if args.small else table, name)).to(device)
        weights = sum(parameter.numel() for parameter in model.parameters())
        for ways in args.ways:
            queries = episode_of(ways, width, device)
            each = (
                {"test": one_by_one(model, queries)} if name == UNCACHED else works(model, queries)
            )
            for what, work in each.items():
                measured = measure(work, device, args.repeats)
                yield {"learner": name, "weights": weights, "ways": ways, "what": what} | measured
        del model


def shrunk(table: dict[str, Any]) -> dict[str, Any]:
    """Return a model config small enough to try anywhere."""
    kind = table["learner"]
    return table | SMALL[kind] | (FEW_LAYERS if kind != "snail" else {})


def works(model: AnyModel, episode: Episode) -> dict[str, Callable[[], object]]:
    """Return what is measured of a model: predicting an episode, and training on one."""
    learner = InContextLearner(model, chunk_size=episode.query.num_query)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-6)

    def answer() -> object:
        with torch.autocast(model.device.type, torch.bfloat16):
            return learner.infer(episode.support, episode.query.features)

    def train() -> None:
        optimiser.zero_grad(set_to_none=True)
        draw = model.draw(episode.support, stream(0, device=model.device))
        with torch.autocast(model.device.type, torch.bfloat16):
            loss = query_loss(model(episode, draw), episode.query)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return {"test": answer, "train": train}


def one_by_one(model: AnyModel, episode: Episode) -> Callable[[], object]:
    """Predict with the support re-read for every query."""
    queries = episode.query.features[0].unsqueeze(1)  # (m, 1, d_T)
    support = replace(
        episode.support,
        features=episode.support.features.expand(len(queries), -1, -1),
        class_indices=episode.support.class_indices.expand(len(queries), -1),
    )
    learner = InContextLearner(model, visibility=Visibility.ISOLATED, chunk_size=1)

    def answer() -> object:
        with torch.autocast(model.device.type, torch.bfloat16):
            return learner.infer(support, queries)

    return answer


def main() -> None:
    """Measure, and write JSON, tables and plots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--ways", type=int, nargs="+", default=list(WAYS))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--small", action="store_true", help="tiny transformers, to try the script")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--page", action="store_true", help="only write the page again")
    parser.add_argument("--about", help="device and versions, for a page that is written again")
    args = parser.parse_args()
    if args.page:
        lines = (args.out / "rows.json").read_text().splitlines()
        write_page(args, [json.loads(line) for line in lines], args.about)
        return
    device = torch.device(args.device)
    args.out.mkdir(parents=True, exist_ok=True)
    rows_so_far = []
    with sdpa_kernel(KERNELS):
        for row in rows(args, device):
            print(json.dumps(row), flush=True)
            rows_so_far.append(row)
            (args.out / "rows.json").write_text("\n".join(map(json.dumps, rows_so_far)) + "\n")
    write_page(args, rows_so_far, f"{device_name(device)}, torch {torch.__version__}")


def write_page(args: argparse.Namespace, measured: list[dict[str, Any]], about: str) -> None:
    """Write tables and plots of the measurements."""
    args.ways = sorted({row["ways"] for row in measured})
    counts = {row["learner"]: row["weights"] / 1e6 for row in measured if "weights" in row}
    weights = ", ".join(f"{name} {count:.1f}" for name, count in counts.items())
    page = Page(
        args.out / "README.md",
        "Cost against the number of classes",
        f"1-shot, {QUERIES} queries a class, width {WIDTH}, one episode at a time;"
        f" {about}, meta-trained networks of the paper under bfloat16 autocast,"
        f" attention kernels other than cuDNN's; median of {args.repeats} calls."
        f" Weights in millions: {weights}.",
    )
    for what, unit, title in (
        ("test", "milliseconds", "Answering one episode, ms"),
        ("train", "milliseconds", "One training step on one episode, ms"),
        ("train", "gibibytes", "Peak memory of that step, weights and optimiser included, GiB"),
    ):
        page.text(f"## {title}")
        page.table(
            ["learner", *(f"K = {way}" for way in args.ways)],
            cells(measured, what, unit, args.ways),
        )
    page.text(f"## {EPISODES:,} episodes, one after the other, s")
    thousand = [
        row | {"seconds": row["milliseconds"] * EPISODES / 1e3} if "milliseconds" in row else row
        for row in measured
    ]
    page.table(
        ["learner", *(f"K = {way}" for way in args.ways)],
        cells(thousand, "test", "seconds", args.ways),
    )
    page.text("## Slower than TAIL from this many classes on")
    others = [name for name in dict.fromkeys(r["learner"] for r in measured) if name not in OURS]
    page.table(
        ["learner", *OURS],
        [[name, *(crossing(measured, ours, name) for ours in OURS)] for name in others],
    )
    plot(measured, args.out / "cost.png", MODELS)
    page.text(
        "Lines of learners that cost the same lie on each other in the plot.", "![plot](cost.png)"
    )


if __name__ == "__main__":
    main()
