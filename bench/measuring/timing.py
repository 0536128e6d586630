"""Times of calls, and names of devices."""

import statistics
import time
from collections.abc import Callable

import torch


def wait(device: torch.device) -> None:
    """Wait until the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def seconds(work: Callable[[], object], repeats: int, device: torch.device | None = None) -> float:
    """Return the median time of a call, after a warm-up call."""
    device = device or torch.device("cpu")
    times = []
    for _ in range(1 + repeats):
        wait(device)
        start = time.perf_counter()
        work()
        wait(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def wait_until(is_so: Callable[[], object], what: str, *, limit: float = 120.0) -> None:
    """Wait for a condition; raise if it does not become true in time."""
    end = time.monotonic() + limit
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {limit:g} s until {what}")
        time.sleep(0.02)


def device_name(device: torch.device) -> str:
    """Return the device's name as in reports."""
    if device.type == "cuda":
        return torch.cuda.get_device_name()
    return f"CPU, {torch.get_num_threads()} threads"
