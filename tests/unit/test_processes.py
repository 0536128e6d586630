import sys
from types import SimpleNamespace

import pytest

from unitail.errors import MissingExtra
from unitail.processes import TIMEOUT, ProcessGroup


def test_a_process_by_itself_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setitem(sys.modules, "accelerate", None)  # which it does not need
    group = ProcessGroup.join(cpu=True)
    assert (group.index, group.count, group.is_main) == (0, 1, True)
    group.wait()


def test_a_process_of_several_joins_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def state(**options: object) -> SimpleNamespace:
        asked.append(options)
        return SimpleNamespace(
            process_index=1, num_processes=3, wait_for_everyone=lambda: asked.append("wait")
        )

    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setitem(sys.modules, "accelerate", SimpleNamespace(PartialState=state))
    group = ProcessGroup.join(cpu=True)
    assert (group.index, group.count, group.is_main) == (1, 3, False)
    group.wait()
    assert asked == [{"cpu": True, "timeout": TIMEOUT}, "wait"]


def test_several_need_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(MissingExtra, match=r"pip install 'unitail\[train\]'"):
        ProcessGroup.join(cpu=True)
