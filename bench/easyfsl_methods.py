"""easyfsl's transductive methods as learners, and the settings that each is chosen from.

easyfsl brings torchvision, so it has an environment of its own: see `peers.py`.
"""

import importlib
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from unitail.framework.episode import Support
from unitail.framework.learner import Paradigm

library: Any = torch.library  # which has no types
SHIM = library.Library("torchvision", "FRAGMENT")  # with what torchvision looks for on import
for operator in ("nms", "qnms"):
    SHIM.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
easyfsl: Any = importlib.import_module("easyfsl.methods")

VERSION = importlib.metadata.version("easyfsl")
Pair = tuple[Tensor, Tensor]
"""Features of support and queries, (B, n, d_T) and (B, m, d_T)."""


class PtMap(easyfsl.PTMAP):  # type: ignore[misc]
    """PT-MAP on features as they are prepared.

    easyfsl's own takes roots of the raw features and no more. Its authors scale them to length 1
    and centre them after that; without it distances are so long that exp(-10 d²) is 0 for all
    classes, and answers are by chance. Where features are negative, it sets them to 0.
    """

    def compute_features(self, images: Tensor) -> Tensor:
        """Return the features."""
        return images


METHODS = {"BD-CSPN": easyfsl.BDCSPN, "LaplacianShot": easyfsl.LaplacianShot, "PT-MAP": PtMap}
METHODS |= {"TIM": easyfsl.TIM, "TransductiveFinetuning": easyfsl.TransductiveFinetuning}


def unit(support: Tensor, query: Tensor) -> Pair:
    """Scale to length 1."""
    return F.normalize(support, dim=-1), F.normalize(query, dim=-1)


def centred(support: Tensor, query: Tensor) -> Pair:
    """Centre on the support's mean, then scale to length 1."""
    mean = support.mean(dim=1, keepdim=True)
    return unit(support - mean, query - mean)


def together(support: Tensor, query: Tensor) -> Pair:
    """Centre on the mean of all."""
    mean = torch.cat([support, query], dim=1).mean(dim=1, keepdim=True)
    return unit(support - mean, query - mean)


def apart(support: Tensor, query: Tensor) -> Pair:
    """Centre support and queries each on their own mean."""
    return unit(support - support.mean(dim=1, keepdim=True), query - query.mean(1, keepdim=True))


def rooted(support: Tensor, query: Tensor) -> Pair:
    """Do as the authors of PT-MAP: roots, if no feature is negative; length 1; centres apart."""
    if min(support.min(), query.min()) >= 0:
        support, query = (support + 1e-6).sqrt(), (query + 1e-6).sqrt()
    return apart(*unit(support, query))


PREPARATIONS: dict[str, Callable[[Tensor, Tensor], Pair]] = {
    "raw": lambda support, query: (support, query),
    "unit": unit,
    "centred on the support": centred,
    "centred on all": together,
    "centred apart": apart,
    "roots, centred apart": rooted,
}


@dataclass(frozen=True)
class Peer:
    """A method of easyfsl as a learner, episode by episode."""

    method: str
    preparation: str
    options: tuple[tuple[str, float], ...] = ()
    """Where they are not easyfsl's."""
    paradigm: ClassVar[Paradigm] = Paradigm.EXPLICIT

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        """Answer queries given the support: log-probabilities (B, m, K)."""
        examples, queries = PREPARATIONS[self.preparation](support.features, query_features)
        classifier = METHODS[self.method](use_softmax=True, **dict(self.options))
        answers = []
        for own, classes, asked in zip(examples, support.class_indices, queries, strict=True):
            classifier.process_support_set(own, classes)
            answers.append(classifier(asked).detach())
        chances = torch.stack(answers).clamp_min(1e-12)  # transport plans sum to about 1 and have 0
        return (chances / chances.sum(dim=-1, keepdim=True)).log()

    def __str__(self) -> str:
        options = [f"{name} {value:g}" for name, value in self.options]
        return ", ".join([self.preparation, *options])


def _peers(method: str, *options: Mapping[str, float], without: Sequence[str] = ()) -> list[Peer]:
    names = [name for name in PREPARATIONS if name not in without]
    return [Peer(method, name, tuple(own.items())) for name in names for own in options]


GRID = {
    "BD-CSPN": _peers("BD-CSPN", {}),
    "LaplacianShot": _peers("LaplacianShot", {}),
    "LaplacianShot, tuned": _peers(
        "LaplacianShot",
        *({"lambda_regularization": weight} for weight in (0.1, 0.3, 0.7, 1.0)),
        {"lambda_regularization": 0.3, "knn": 5},
        without=["raw"],
    ),
    "PT-MAP": _peers("PT-MAP", {}, {"fine_tuning_lr": 0.4}, without=["raw", "unit"]),
    "TIM": _peers("TIM", {}),
    "TIM, tuned": _peers(
        "TIM",
        *(
            {"fine_tuning_lr": 1e-3, "marginal_entropy_weight": weight}
            for weight in (0.0, 0.1, 0.3, 1.0)
        ),
        without=["raw", "centred apart", "roots, centred apart"],
    ),
    "TransductiveFinetuning": _peers("TransductiveFinetuning", {}),
}
"""What each peer is chosen from."""
