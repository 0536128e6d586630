"""Devices by the names that users give."""

import torch

from unitail.errors import InvalidConfig


def choose_device(name: object) -> torch.device:
    """Return the device called `name`; "auto" is a CUDA device where there is one."""
    cuda = torch.cuda.is_available()
    if name == "auto":
        return torch.device("cuda" if cuda else "cpu")
    try:
        device = torch.device(name)  # type: ignore[call-overload]
    except (RuntimeError, TypeError):
        device = None
    if device is None or (device.type == "cuda" and not cuda):
        raise InvalidConfig(
            "device is unknown",
            got=repr(name),
            allowed=f"auto, cpu{', cuda' if cuda else ''} or another device of this machine",
            remedy="Name another device, or none.",
        )
    return device  # type: ignore[no-any-return]


def has_accelerator() -> bool:
    """Tell whether processes can have devices of their own; those of Apple cannot be shared out.

    Without any, accelerate must be told to use the CPU: else each process thinks it is alone.
    """
    device = torch.accelerator.current_accelerator(check_available=True)
    return device is not None and device.type != "mps"
