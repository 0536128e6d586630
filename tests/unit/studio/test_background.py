import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from unitail.studio.background import NICENESS, step_back


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
