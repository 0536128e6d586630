"""Selection of torch devices by the names that users give."""

import torch

from unitail.errors import InvalidConfig


def choose_device(name: object) -> torch.device:
    """Return the device called `name`; "auto" is a CUDA device if there is one, else the CPU."""
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
    """Return whether each process can use a device of its own; Apple's MPS devices do not count.

    Without such devices, accelerate has to be told to use the CPU; otherwise every process runs as
    if it were the only one.
    """
    device = torch.accelerator.current_accelerator(check_available=True)
    return device is not None and device.type != "mps"
