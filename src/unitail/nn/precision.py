"""The dtype that networks work in."""

import torch
from torch import Tensor


def in_working_precision(tokens: Tensor) -> Tensor:
    """Take tokens into autocast's dtype where autocast is on.

    The residual stream, or the states that grow by concatenation, then stay in the shorter dtype,
    which halves the memory traffic between matrix products; features were normalised before.
    """
    # The meta device has no autocast to ask about. (`is_autocast_available` would know, but
    # torch.compile of some versions cannot trace it.)
    device = tokens.device.type
    if not tokens.is_meta and torch.is_autocast_enabled(device):
        return tokens.to(torch.get_autocast_dtype(device))
    return tokens
