"""Time and peak memory of TAIL's forward against support size n and number of queries m.

Shows, in one run, that isolated inference costs n^2 + n m and what a cached support saves:

    python bench/forward_cost.py --preset small --out results/forward_cost_cpu.md

With `--preset paper --device cuda`, the same can be measured on a GPU; no page in results/ does so.
Only ratios within one run mean anything; the seconds depend on the machine.
"""

import argparse
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from measuring.page import Page
from measuring.timing import device_name, seconds
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from unitail.framework.episode import Episode, Query, Support
from unitail.learners.registry import preset
from unitail.nn.episode_model import Visibility
from unitail.randomness import stream
from unitail.tail.model import Tail

WAYS = 10


@dataclass(frozen=True)
class Cost:
    """Median seconds, peak additional megabytes, and floating-point operations."""

    seconds: float
    megabytes: float
    operations: int


def count(work: Callable[[], object]) -> int:
    """Count the floating-point operations of `work` on the "meta" device."""
    # Fused kernels are not counted; the products they stand for are.
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        work()
    return counter.get_total_flops()


def megabytes(work: Callable[[], object], device: torch.device) -> float:
    """Return the peak additional memory of `work`."""
    if device.type == "cuda":
        held = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        work()
        return float(torch.cuda.max_memory_allocated() - held) / 2**20
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as trace:
        work()
    assert trace.profiler is not None
    assert trace.profiler.kineto_results is not None
    events = trace.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    now = peak = 0
    for _, change in changes:
        now += change
        peak = max(peak, now)
    return peak / 2**20


class Setting:
    """A model, and the work of episodes of any size on it."""

    def __init__(self, name: str, visibility: Visibility, device: torch.device) -> None:
        config = preset(name, visibility=visibility)
        self.device = device
        self.dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        self.model = Tail(config).to(device, self.dtype).requires_grad_(False)

    def on(self, device: torch.device) -> "Setting":
        """Return the same setting on another device."""
        moved = copy.copy(self)
        moved.device, moved.model = device, copy.deepcopy(self.model).to(device)
        return moved

    def episode(self, num_support: int, num_query: int) -> Episode:
        """Return random features of the model's width."""
        generator = stream(0, num_support, num_query)
        width = self.model.config.projected_dim
        rows = torch.randn(1, num_support + num_query, width, generator=generator)
        support = Support(
            features=rows[:, :num_support],
            class_indices=torch.arange(num_support).remainder(WAYS).unsqueeze(0),
            ways=WAYS,
        )
        episode = Episode(support=support, query=Query(features=rows[:, num_support:]))
        return episode.to(self.device, self.dtype)

    def forward(self, num_support: int, num_query: int) -> Callable[[], object]:
        """Return the work of reading a support and predicting the queries."""
        episode = self.episode(num_support, num_query)
        draw = self.model.draw(episode.support, stream(0)).to(self.device)
        return lambda: self.model(episode, draw)

    def cached(self, num_support: int, num_query: int) -> Callable[[], object]:
        """Return the work of predicting the queries from a cached support."""
        episode = self.episode(num_support, num_query)
        draw = self.model.draw(episode.support, stream(0)).to(self.device)
        with torch.inference_mode():
            read = self.model.read(episode.support, draw)
        return lambda: self.model.answer(read, episode.query.features)


Work = Callable[[Setting], Callable[[], object]]


def cost(setting: Setting, work: Work, repeats: int) -> Cost:
    """Measure work on the device, and count its operations."""
    ready = work(setting)
    with torch.inference_mode():
        spent = seconds(ready, repeats, setting.device)
        peak = megabytes(ready, setting.device)
    return Cost(spent, peak, count(work(setting.on(torch.device("meta")))))


def rows(setting: Setting, num_support: int, args: argparse.Namespace) -> Iterator[list[object]]:
    """Measure a support size for each number of queries, next to the predicted ratios."""
    isolated = setting.model.config.visibility.isolates_queries
    previous: Cost | None = None
    for num_query in args.query:
        sizes = (num_support, num_query)
        whole = cost(setting, lambda where: where.forward(*sizes), args.repeats)  # noqa: B023
        cells: list[object] = [setting.model.config.visibility, *sizes]
        cells += [f"{1e3 * whole.seconds:.2f}", f"{whole.megabytes:.1f}"]
        cells.append("" if previous is None else ratio(whole, previous))
        if isolated:
            again = cost(setting, lambda where: where.cached(*sizes), args.repeats)  # noqa: B023
            cells += [f"{1e3 * again.seconds:.2f}", ratio(whole, again)]
        else:
            cells += ["-", "-"]
        previous = whole
        yield cells


def ratio(one: Cost, other: Cost) -> str:
    """Return the measured ratio of times, and the ratio of operations."""
    return f"{one.seconds / other.seconds:.2f} ({one.operations / other.operations:.2f})"


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="small")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--support", type=int, nargs="+", default=[100, 400, 1600])
    parser.add_argument("--query", type=int, nargs="+", default=[200, 400, 800, 1600, 3200])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    device = torch.device(args.device)
    settings = [
        Setting(args.preset, visibility, device)
        for visibility in (Visibility.ISOLATED, Visibility.JOINT)
    ]
    page = Page(
        args.out,
        "Cost of the forward pass",
        f"Preset `{args.preset}`, {str(settings[0].dtype).removeprefix('torch.')},"
        f" {device_name(device)}, torch {torch.__version__}, one episode of {WAYS} classes with n"
        f" support rows and m queries. Median of {args.repeats} runs; memory beyond weights, inputs"
        " and cache. In brackets: the same ratio of floating-point operations.",
    )
    header = ["visibility", "n", "m", "forward ms", "peak MB"]
    page.table([*header, "m doubled", "cached ms", "cache saves"])
    for setting in settings:
        for num_support in args.support:
            for cells in rows(setting, num_support, args):
                page.row(*cells)


if __name__ == "__main__":
    main()
