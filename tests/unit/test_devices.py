import pytest
import torch

from unitail.devices import choose_device, has_accelerator
from unitail.errors import InvalidConfig

CPU = torch.device("cpu")


def test_the_automatic_device_is_there() -> None:
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert choose_device("auto").type == expected
    assert choose_device(CPU) == choose_device("cpu") == CPU


def test_a_gpu_is_taken_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto") == choose_device("cuda") == torch.device("cuda")


@pytest.mark.parametrize("name", ["cuda", "abacus", 1.5])
def test_a_device_that_is_not_there_is_refused(
    name: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
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
