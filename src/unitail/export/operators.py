r"""Operators of torch that ONNX lacks, or that are only for speed, in terms of those it has.

- Cutting rows into chunks for a CPU's caches would fix their number: it is left out.
- Layers of no rows, which runtimes stumble over, are zeros of their shape.
- A diagonal that is changed in place becomes a change of the whole matrix.
- ONNX inverts no matrices. The inverse of a positive definite A, which our models take by
  Cholesky's factors, is found by Newton's iteration (Schulz 1933)

      X <- X (2 I - A X),    X_0 = I / max_i sum_j |A_ij|,

  which squares the error I - A X in each step, and needs products alone. The error is at most
  1 - 1 / κ at first, κ the condition of A in that norm, so log2(κ) + 6 steps are enough; `STEPS`
  are for κ up to 1e9.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

STEPS = 36


def newton_inverse(matrices: Tensor) -> Tensor:
    """Invert positive definite matrices (..., n, n), in double precision."""
    a = matrices.double()
    unit = torch.eye(a.shape[-1], dtype=a.dtype)
    inverse = unit / a.abs().sum(dim=-1, keepdim=True).amax(dim=-2, keepdim=True)
    for _ in range(STEPS):
        inverse = inverse @ (2 * unit - a @ inverse)
    return inverse.to(matrices.dtype)


class Exportable(TorchFunctionMode):
    """As long as it is entered, functions of torch are those that can be exported."""

    def __init__(self) -> None:
        super().__init__()
        self._factored: dict[int, tuple[Tensor, Tensor]] = {}
        self._diagonals: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the function returns
        """Call a function, or what stands for it."""
        if func in (torch.split, Tensor.split):
            return (args[0],)
        if func is F.linear and 0 in args[0].shape[:-1]:
            return args[0].new_zeros((*args[0].shape[:-1], args[1].shape[0]))
        if func is Tensor.diagonal:
            view = func(*args, **(kwargs or {}))
            self._diagonals[id(view)] = (view, args[0])
            return view
        if func in (Tensor.zero_, Tensor.add_) and id(args[0]) in self._diagonals:
            return self._change_diagonal(*args)
        if func is torch.linalg.cholesky:
            factor = args[0] + 0  # stands for the factor: only its inverse square is asked for
            self._factored[id(factor)] = (factor, args[0])
            return factor
        if func is torch.cholesky_inverse and id(args[0]) in self._factored:
            return newton_inverse(self._factored[id(args[0])][1])
        return func(*args, **(kwargs or {}))

    def _change_diagonal(self, view: Tensor, added: Tensor | None = None) -> Tensor:
        """Set the diagonal of square matrices to zero, or add to it."""
        matrices = self._diagonals[id(view)][1]
        unit = torch.eye(matrices.shape[-1], dtype=matrices.dtype)
        if added is None:
            matrices.mul_(1 - unit)
        else:
            matrices.add_(unit * added.unsqueeze(-1))
        return view
