import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from helpers.studios import open_studio, write_pictures
from unitail.studio.background import (
    NICENESS,
    limit_numpy_threads,
    lower_priority,
    share_cores,
    share_cores_in_background,
)


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities on Linux alone")
def test_a_thread_steps_back_and_those_that_it_starts_and_no_other() -> None:
    before = niceness()

    def started() -> int:
        with ThreadPoolExecutor(1) as own:
            return own.submit(niceness).result()

    for begin in (lower_priority, share_cores_in_background):
        with ThreadPoolExecutor(1, initializer=begin) as background:
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
        for begin in (share_cores, share_cores_in_background):
            with ThreadPoolExecutor(1, initializer=begin) as beside:
                assert beside.submit(torch.get_num_threads).result() == 2
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)


def blas_threads() -> set[int]:
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_numpy_is_calm_until_it_is_let_go() -> None:
    with threadpool_limits(3, user_api="blas"):
        calmed = limit_numpy_threads()
        assert blas_threads() == {1}
        calmed.restore_original_limits()
        assert blas_threads() == {3}


def test_numpy_is_calm_while_a_studio_is_open(tmp_path: Path) -> None:
    write_pictures(tmp_path, 2)
    with threadpool_limits(3, user_api="blas"):
        studio = open_studio(tmp_path)
        studio.start()
        assert blas_threads() == {1}
        studio.stop()
        assert blas_threads() == {3}
