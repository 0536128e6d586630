"""Tasks over real data held in arrays."""

import hashlib

import torch
from torch import Tensor

from unitail.errors import InvalidEpisode, UserError
from unitail.framework.episode import (
    ArrayLike,
    Episode,
    as_class_indices,
    as_features,
    check_class_indices,
    check_features,
    check_finite,
    check_range,
)
from unitail.framework.task import Loss, zero_one_loss
from unitail.tasks.assemble import distinct_places, split_rows
from unitail.tasks.batches import check_counts


class ArrayTask:
    """A task whose data are the rows of an array; its Bayes risk is unknown unless passed in.

    `features` (rows, d_T) are encoded inputs, `class_indices` (rows,) their classes 0..K-1.
    """

    def __init__(
        self,
        *,
        features: ArrayLike,
        class_indices: ArrayLike,
        name: str,
        loss: Loss = zero_one_loss,
        bayes_risk: float | None = None,
    ) -> None:
        self.name = name
        self.loss = loss
        self.bayes_risk = bayes_risk
        self.features, indices = _checked(features, class_indices)  # (rows, d_T), (rows,)
        self.class_sizes = torch.bincount(indices)  # (K,)
        self._check_enough(1)
        self._order = indices.argsort(stable=True)  # groups the rows by class
        self._largest = int(self.class_sizes.max())

    @property
    def feature_dim(self) -> int:
        """d_T."""
        return self.features.shape[1]

    @property
    def ways(self) -> int:
        """K."""
        return len(self.class_sizes)

    @property
    def fingerprint(self) -> str:
        """A SHA-256 digest of all rows and class sizes."""
        digest = hashlib.sha256()
        for tensor in (self.features[self._order], self.class_sizes):
            digest.update(tensor.cpu().numpy().tobytes())
        return digest.hexdigest()

    def sample(
        self, *, episodes: int, shots: int, queries: int, generator: torch.Generator
    ) -> Episode:
        """Draw N-shot instances on the generator's device, without repeated rows in an instance.

        Support and queries come in random order.
        """
        check_counts(episodes=episodes, shots=shots, queries=queries)
        self._check_enough(shots + queries)
        device = generator.device
        sizes, order = self.class_sizes.to(device), self._order.to(device)
        places = distinct_places(
            sizes.expand(episodes, -1), shots + queries, self._largest, generator
        )  # (B, K, shots + queries)
        starts = (sizes.cumsum(0) - sizes).unsqueeze(1)
        return split_rows(self.features.to(device)[order[starts + places]], shots, generator)

    def _check_enough(self, needed: int) -> None:
        """Raise if any class has fewer than `needed` rows."""
        least, index = (int(value) for value in self.class_sizes.min(dim=0))
        if least < needed:
            raise UserError(
                f"class {index} of task {self.name!r} has too few rows",
                got=f"{least}",
                allowed=f"{needed} or more",
                remedy="Ask for fewer shots or queries, or leave the class out and renumber.",
            )


def _checked(features: ArrayLike, class_indices: ArrayLike) -> tuple[Tensor, Tensor]:
    """Validate a task's data and convert them to tensors (rows, d_T) and (rows,)."""
    table = as_features(features, "task").to(torch.get_default_dtype())
    indices = as_class_indices(class_indices, "task")
    check_features(table, "task")
    if len(table) != 1:
        raise InvalidEpisode(
            "task features have the wrong shape", got=tuple(table.shape), allowed="(rows, width)"
        )
    check_class_indices(indices, table, "task")
    check_finite(table, "task")
    ways = int(indices.max()) + 1
    if ways < 2:
        raise InvalidEpisode(
            "a task needs at least two classes",
            got=f"class indices up to {ways - 1}",
            allowed="2 or more classes",
            remedy="Add labelled rows of another class.",
        )
    check_range(indices, ways, "task")
    return table[0], indices[0]
