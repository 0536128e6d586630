import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from unitail.studio.background import NICENESS, calm_numpy, share_cores, step_back


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities on Linux alone")
def test_a_thread_steps_back_and_those_that_it_starts_and_no_other() -> None:
    before = niceness()

    def started() -> int:
        with ThreadPoolExecutor(1) as own:
            return own.submit(niceness).result()

    with ThreadPoolExecutor(1, initializer=step_back) as background:
        assert background.submit(niceness).result() == max(before, NICENESS)
        assert background.submit(started).result() == max(before, NICENESS)
    assert niceness() == before


def test_a_thread_that_shares_the_cores_leaves_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        with ThreadPoolExecutor(1, initializer=share_cores) as beside:
            assert beside.submit(torch.get_num_threads).result() == 2
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)


def test_numpy_is_calm_until_it_is_let_go() -> None:
    def threads() -> set[int]:
        return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

    with threadpool_limits(3, user_api="blas"):
        calmed = calm_numpy()
        assert threads() == {1}
        calmed.restore_original_limits()
        assert threads() == {3}
