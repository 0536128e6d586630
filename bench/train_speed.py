"""Training throughput of TAIL, episode sampling included, as a fraction of the card's peak.

In one run: the card's bfloat16 matrix-product peak, then whole training steps (sample, draw,
forward, backward, clip, step) on episodes from a feature bank, and sampling alone.

    python bench/train_speed.py --banks BANKS --out results/train_speed.md

The operations of a step are counted, not estimated: the matrix products of the forward pass,
attention's included, and twice as many for the backward pass.
"""

import argparse
import gc
import importlib
import itertools
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from measuring.page import Page
from measuring.timing import device_name, wait
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from unitail.randomness import stream
from unitail.training.data import build_sources
from unitail.training.processes import Processes
from unitail.training.recipe import Recipe, recipe_from_table
from unitail.training.step import draw_batch
from unitail.training.trainer import Trainer

PEAK_SIZE, SMALL_SIZE = 8192, 128
HEADER = [
    "visibility", "compiled", "tokens a step", "ms a step", "episodes/s", "TFLOP/s", "of peak",
    "sampling episodes/s", "sampling share", "GiB",
]  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """One row of the table."""

    visibility: str
    compiled: bool
    tokens: int


def seconds(
    work: Callable[[int], object], warmup: int, repeats: int, device: torch.device
) -> float:
    """Return the mean time of a call over `repeats` calls, after a warm-up."""
    for step in range(warmup):
        work(step)
    wait(device)
    start = time.perf_counter()
    for step in range(warmup, warmup + repeats):
        work(step)
    wait(device)
    return (time.perf_counter() - start) / repeats


def peak(device: torch.device, size: int) -> float:
    """Measure the rate of a large bfloat16 matrix product, in FLOP/s."""
    one = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    other = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    return 2 * size**3 / seconds(lambda _: one @ other, 5, 20, device)


def recipe(args: argparse.Namespace, variant: Variant) -> Recipe:
    """Return a recipe with a single shape: 5 ways, 5 shots, 10 queries per class."""
    return recipe_from_table(
        {
            "model": {"preset": args.preset, "visibility": variant.visibility},
            "episodes": {"ways": [5, 5], "shots": [5, 5], "queries": 10, "tokens": variant.tokens},
            "sources": {"banks": {"banks": [args.bank], "held_out_from": [Path(args.bank).name]}},
            "training": {
                "steps": 10_000,
                "learning_rate": 3e-5,
                "precision": "bfloat16",
                "compile": variant.compiled,
            },
        },
        "bench",
    )


def operations(trainer: Trainer) -> int:
    """Count the floating-point operations of a training step on one batch."""
    batch = trainer.step.source.choose_batch(trainer.recipe.episodes, stream(0))
    generator = stream(0, device=trainer.processes.device)
    episode, draw = draw_batch(batch, trainer.model, generator, slice(8))
    counter = FlopCounterMode(display=False)
    # Fused kernels are not counted; the products they stand for are.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        trainer.model.forward(episode, draw)
    return 3 * counter.get_total_flops() * batch.shape.episodes // 8


def measure(args: argparse.Namespace, variant: Variant, rate: float) -> list[str]:
    """Train some steps and sample some batches; return the table's row."""
    plan = recipe(args, variant)
    sources = build_sources(plan, args.banks)
    source = sources.training
    processes = Processes(cpu=args.device == "cpu")
    device = processes.device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(plan, Path(folder), sources, processes=processes)
        step = seconds(trainer.step, args.warmup, args.repeats, device)
        episodes = source.choose_batch(plan.episodes, stream(0)).shape.episodes

        def sample(number: int) -> None:
            generator = stream(number, device=device)
            batch = source.choose_batch(plan.episodes, stream(number))
            draw_batch(batch, trainer.model, generator, slice(None))

        sampling = seconds(sample, 3, args.repeats, device)
        achieved = operations(trainer) / step
        if args.profile is not None:
            write_profile(trainer, variant, args.profile)
    memory = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else 0.0
    cells = [variant.visibility, "yes" if variant.compiled else "no", f"{variant.tokens:,}"]
    cells += [f"{1e3 * step:.1f}", f"{episodes / step:,.0f}", f"{achieved / 1e12:.0f}"]
    cells += [f"{100 * achieved / rate:.1f} %", f"{episodes / sampling:,.0f}"]
    cells += [f"{100 * sampling / step:.1f} %", f"{memory:.0f}"]
    return cells


def write_profile(trainer: Trainer, variant: Variant, folder: Path) -> None:
    """Write how the time of a step is split over kernels."""
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities) as trace:
        for step in range(3):
            trainer.step(step)
        wait(trainer.processes.device)
    kind = "compiled" if variant.compiled else "eager"
    path = folder / f"train_profile_{variant.visibility}_{kind}_{variant.tokens}.txt"
    table = trace.key_averages().table(
        sort_by="self_device_time_total", row_limit=25, max_name_column_width=90
    )
    path.write_text(table)


def main() -> None:
    """Measure all variants and write the table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--banks", type=Path, required=True)
    parser.add_argument("--bank", default="efflite0/tiny_imagenet")
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tokens", type=int, nargs="+", default=[38_400, 76_800])
    parser.add_argument("--visibility", nargs="+", default=["isolated", "joint"])
    parser.add_argument("--kinds", nargs="+", default=["eager", "compiled"])
    parser.add_argument("--autotune", action="store_true", help="let inductor choose the products")
    parser.add_argument("--profile", type=Path, help="folder for tables of kernels")
    parser.add_argument("--warmup", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    device = torch.device(args.device)
    rate = peak(device, PEAK_SIZE if device.type == "cuda" else SMALL_SIZE)
    page = Page(
        args.out,
        "Training speed",
        f"Preset `{args.preset}`, bfloat16, {device_name(device)}, torch {torch.__version__}; 5"
        f" ways, 5 shots, 10 queries of a class from {args.bank}; matrix-product peak"
        f" {rate / 1e12:.0f} TFLOP/s. Mean of {args.repeats} steps.",
    )
    page.table(HEADER)
    if args.autotune:
        inductor: Any = importlib.import_module("torch._inductor.config")
        inductor.max_autotune_gemm = True
    for kind, visibility, tokens in itertools.product(args.kinds, args.visibility, args.tokens):
        page.row(*measure(args, Variant(visibility, kind == "compiled", tokens), rate))
        torch.compiler.reset()
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
