"""Sequences of SNAIL, GPICL and CAML: one for each query, with a copy of the support."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unitail.nn.transformer import INIT_GAIN


def with_labels(features: Tensor, slots: Tensor, classes: int) -> Tensor:
    """Concatenate features and one-hot slots: (B, n, d), (B, n) -> (B, n, d + classes)."""
    return torch.cat([features, F.one_hot(slots, classes).to(features.dtype)], dim=-1)


def with_blank_labels(features: Tensor, classes: int) -> Tensor:
    """Append zeros in place of a label: (B, m, d) -> (B, m, d + classes)."""
    return F.pad(features, (0, classes))


def initialise_label_columns(weight: Tensor, columns: slice, generator: torch.Generator) -> None:
    """Give a one-hot label as much weight at first as all coordinates of normalised features.

    As one coordinate among many of its size it would hardly matter, and models learn much later.
    """
    with torch.no_grad():
        nn.init.normal_(weight[:, columns], std=INIT_GAIN, generator=generator)


def copy_for_queries(support: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
    """Give every query its own copy of the support.

    (B, n, d) support tokens, (B, m, d) queries -> (B * m, n, d) copies, (B * m, 1, d) queries.
    """
    copies = support.unsqueeze(1).expand(-1, queries.shape[1], -1, -1)  # (B, m, n, d)
    return copies.flatten(0, 1), queries.flatten(0, 1).unsqueeze(1)


def gather_answers(answers: Tensor, episodes: int) -> Tensor:
    """Group the answers of all sequences by episode: (B * m, M) -> (B, m, M)."""
    return answers.reshape(episodes, -1, answers.shape[1])
