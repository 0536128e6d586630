import select
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from unitail import processes
from unitail.errors import InvalidConfig, MissingExtra
from unitail.processes import (
    TIMEOUT,
    ProcessGroup,
    choose_device,
    has_accelerator,
    launched,
    threads_of_each,
)


def test_a_process_by_itself_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setitem(sys.modules, "accelerate", None)  # which it does not need
    group = ProcessGroup.join(cpu=True)
    assert (group.index, group.count, group.is_main) == (0, 1, True)
    group.wait()
    group.leave()


def test_a_process_of_several_joins_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def state(**options: object) -> SimpleNamespace:
        asked.append(options)
        return SimpleNamespace(
            process_index=1,
            num_processes=3,
            wait_for_everyone=lambda: asked.append("wait"),
            destroy_process_group=lambda: asked.append("leave"),
        )

    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setitem(sys.modules, "accelerate", SimpleNamespace(PartialState=state))
    group = ProcessGroup.join(cpu=True)
    assert (group.index, group.count, group.is_main) == (1, 3, False)
    group.wait()
    group.leave()
    assert asked == [{"cpu": True, "timeout": TIMEOUT}, "wait", "leave"]


@pytest.mark.parametrize("accelerator", [False, True])
def test_without_a_gpu_processes_share_the_cpu(
    accelerator: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else accelerate lets each of them think that it is alone."""
    asked: list[bool] = []
    fake = SimpleNamespace(PartialState=lambda cpu, timeout: asked.append(cpu))
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "accelerate", fake)
    monkeypatch.setattr(processes, "has_accelerator", lambda: accelerator)
    ProcessGroup.join(cpu=False)
    assert asked == [not accelerator]


def test_variables_of_a_launcher_that_are_no_numbers_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "many")
    with pytest.raises(InvalidConfig, match="WORLD_SIZE is not a number of processes: got 'many'"):
        launched()
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "first")
    with pytest.raises(InvalidConfig, match="RANK is not a number of processes: got 'first'"):
        ProcessGroup.join(cpu=True)


def test_several_need_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(MissingExtra, match=r"pip install 'unitail\[train\]'"):
        ProcessGroup.join(cpu=True)


@pytest.mark.parametrize(
    ("allowed", "count", "threads"), [(16, 3, 5), (1, 3, 1), (16, 40, 1), (4, 2, 4)]
)
def test_processes_share_the_cores_that_they_are_allowed(
    allowed: int, count: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes.os, "cpu_count", lambda: 16)
    monkeypatch.setattr(processes.torch, "get_num_threads", lambda: allowed)
    assert threads_of_each(count) == threads


ORPHAN = """
import os, time
from unitail.processes import end_with_parent, ready_to_fork

def work():
    end_with_parent()
    print(os.getpid(), flush=True)
    time.sleep(600)

if __name__ == "__main__":
    ready_to_fork().Process(target=work).start()
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is of POSIX")
def test_a_process_ends_with_the_one_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "orphan.py").write_text(ORPHAN)
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "orphan.py")], stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        assert int(parent.stdout.readline()) != parent.pid
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        ended, _, _ = select.select([parent.stdout], [], [], 60)
        assert ended, "somebody who could write there is still alive"
        assert parent.stdout.read() == ""


def test_the_automatic_device_is_there() -> None:
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert choose_device("auto").type == expected
    assert choose_device(torch.device("cpu")) == choose_device("cpu") == torch.device("cpu")


def test_a_gpu_is_taken_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto") == torch.device("cuda")


@pytest.mark.parametrize("name", ["cuda:99", "xpu:99", "mps:99", "meta", "abacus", 1.5])
def test_a_device_that_is_not_there_is_refused(name: object) -> None:
    with pytest.raises(InvalidConfig, match=f"device is unknown: got {name!r}; allowed: auto, cpu"):
        choose_device(name)


@pytest.mark.parametrize(("kind", "shared"), [(None, False), ("mps", False), ("cuda", True)])
def test_processes_share_out_what_can_be(
    kind: str | None, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = None if kind is None else torch.device(kind)
    monkeypatch.setattr(
        torch.accelerator, "current_accelerator", lambda check_available=False: device
    )
    assert has_accelerator() is shared
