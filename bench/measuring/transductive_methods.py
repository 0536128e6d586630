"""Transductive methods of the literature as learners, with their candidate settings.

All episodes of a batch are predicted at once, on any device. The methods reproduce easyfsl 1.5.0,
which works one episode at a time, with its names and values of options; `easyfsl_check.py` compares
the two.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from unitail.framework.episode import Support
from unitail.framework.learner import Paradigm

SINKHORN_STEPS, SINKHORN_CHANGE, CHECKED_EVERY = 1000, 1e-6, 8
"""Largest number of steps, convergence threshold of a query's sum, and check interval."""
Pair = tuple[Tensor, Tensor]
"""Features of support and queries, (B, n, d_T) and (B, m, d_T)."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Inputs of a method."""

    support: Tensor
    query: Tensor
    labels: Tensor
    """One-hot classes of the support, (B, n, K)."""

    def means(self) -> Tensor:
        """Return the mean of each class, (B, K, d_T)."""
        return self.labels.mT @ self.support / self.labels.sum(dim=1).unsqueeze(2)


def cosines(rows: Tensor, prototypes: Tensor) -> Tensor:
    """Return the cosines of rows and prototypes, (B, rows, K)."""
    return F.normalize(rows, dim=-1) @ F.normalize(prototypes, dim=-1).mT


def rectified(rows: Rows) -> Tensor:
    """Return class means shifted towards the most similar queries (BD-CSPN)."""
    means = rows.means()
    shift = rows.support.mean(dim=1, keepdim=True) - rows.query.mean(dim=1, keepdim=True)
    query = rows.query + shift
    likeness = cosines(query, means)
    chosen = F.one_hot(likeness.argmax(dim=-1), means.shape[1])
    own = rows.labels * cosines(rows.support, means).exp()
    others = chosen * likeness.exp()
    total = own.sum(dim=1) + others.sum(dim=1)
    return (own.mT @ rows.support + others.mT @ query) / total.unsqueeze(2)


def bd_cspn(rows: Rows) -> Tensor:
    """Prototype rectification (Liu, Song and Qin, 2020)."""
    return cosines(rows.query, rectified(rows)).softmax(dim=-1)


def laplacian_shot(
    rows: Rows, *, inference_steps: int = 20, knn: int = 3, lambda_regularization: float = 0.7
) -> Tensor:
    """Regularise over neighbouring queries (Ziko et al., 2020); `knn` counts the row itself."""
    query = rows.query
    unary = torch.cdist(query, rectified(rows)).square()
    near = torch.cdist(query, query).topk(int(knn), largest=False).indices[..., 1:]
    kernel = torch.zeros(*query.shape[:2], query.shape[1], device=query.device)
    kernel.scatter_(2, near, 1.0)
    assigned = (-unary).softmax(dim=-1)
    for _ in range(inference_steps):
        assigned = (lambda_regularization * kernel @ assigned - unary).softmax(dim=-1)
    return assigned


def transport(costs: Tensor, strength: float) -> Tensor:
    """Assign queries evenly to classes by optimal transport (Sinkhorn): (B, m, K)."""
    each = costs.shape[1] // costs.shape[2]
    plan = (-strength * costs).exp()
    plan = plan / plan.sum(dim=(1, 2), keepdim=True)
    open_ = torch.ones(len(plan), 1, 1, dtype=torch.bool, device=plan.device)
    for step in range(SINKHORN_STEPS):
        sums = plan.sum(dim=2, keepdim=True)
        new = plan / (sums + 1e-10)
        new = new * (each / (new.sum(dim=1, keepdim=True) + 1e-10))
        plan = torch.where(open_, new, plan)
        change = (sums - plan.sum(dim=2, keepdim=True)).abs().amax(dim=(1, 2), keepdim=True)
        open_ = open_ & (change >= SINKHORN_CHANGE)
        if step % CHECKED_EVERY == 0 and not open_.any():
            break
    return plan


def pt_map(
    rows: Rows,
    *,
    fine_tuning_steps: int = 10,
    fine_tuning_lr: float = 0.2,
    lambda_regularization: float = 10.0,
) -> Tensor:
    """Optimal transport with iteratively updated prototypes (Hu, Gripon and Pateux, 2020).

    On features as they are prepared: easyfsl's own takes roots of the raw ones and no more. Its
    authors scale them to length 1 and centre them after that; without it distances are so long
    that exp(-10 d²) is 0 for all classes.
    """
    prototypes, every = rows.means(), torch.cat([rows.support, rows.query], dim=1)
    for _ in range(fine_tuning_steps):
        plan = transport(torch.cdist(rows.query, prototypes).square(), lambda_regularization)
        assigned = torch.cat([rows.labels, plan], dim=1)
        means = assigned.mT @ every / assigned.sum(dim=1).unsqueeze(2)
        prototypes = prototypes + fine_tuning_lr * (means - prototypes)
    return transport(torch.cdist(rows.query, prototypes).square(), lambda_regularization)


def entropy(probabilities: Tensor) -> Tensor:
    """Return the entropy over the last dimension."""
    return -(probabilities * (probabilities + 1e-12).log()).sum(dim=-1)


def tuned_prototypes(
    rows: Rows, loss: Callable[[Tensor], Tensor], *, steps: int, rate: float
) -> Tensor:
    """Optimise prototypes with Adam on each episode's loss (B,), elementwise."""
    with torch.enable_grad():
        prototypes = rows.means().detach().requires_grad_()
        optimiser = torch.optim.Adam([prototypes], lr=rate)
        for _ in range(steps):
            optimiser.zero_grad()
            loss(prototypes).sum().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return prototypes.detach()


def tim(
    rows: Rows,
    *,
    fine_tuning_steps: int = 50,
    fine_tuning_lr: float = 1e-4,
    marginal_entropy_weight: float = 1.0,
    conditional_entropy_weight: float = 0.1,
    temperature: float = 10.0,
) -> Tensor:
    """Maximise mutual information: confident, balanced predictions (Boudiaf et al., 2020)."""
    count = rows.support.shape[1]
    units = F.normalize(torch.cat([rows.support, rows.query], dim=1), dim=-1)

    def loss(prototypes: Tensor) -> Tensor:
        scores = temperature * units @ F.normalize(prototypes, dim=-1).mT
        support_loss = -(rows.labels * scores[:, :count].log_softmax(dim=-1)).sum(dim=2).mean(dim=1)
        probabilities = scores[:, count:].softmax(dim=-1)
        shares = probabilities.mean(dim=1)
        marginal = -(shares * shares.log()).sum(dim=1)
        sure = conditional_entropy_weight * entropy(probabilities).mean(dim=1)
        return support_loss - marginal_entropy_weight * marginal + sure

    tuned = tuned_prototypes(rows, loss, steps=fine_tuning_steps, rate=fine_tuning_lr)
    return (temperature * cosines(rows.query, tuned)).softmax(dim=-1)


def transductive_finetuning(
    rows: Rows, *, fine_tuning_steps: int = 25, fine_tuning_lr: float = 5e-5
) -> Tensor:
    """Minimise entropy (Dhillon et al., 2020), of prototypes only, as easyfsl does."""

    def loss(prototypes: Tensor) -> Tensor:
        known = -torch.cdist(rows.support, prototypes)
        asked = -torch.cdist(rows.query, prototypes)
        own = -(rows.labels * known.log_softmax(dim=-1)).sum(dim=2).mean(dim=1)
        return own + entropy(asked.softmax(dim=-1)).mean(dim=1)

    tuned = tuned_prototypes(rows, loss, steps=fine_tuning_steps, rate=fine_tuning_lr)
    return (-torch.cdist(rows.query, tuned)).softmax(dim=-1)


METHODS: dict[str, Callable[..., Tensor]] = {
    "BD-CSPN": bd_cspn,
    "LaplacianShot": laplacian_shot,
    "PT-MAP": pt_map,
    "TIM": tim,
    "TransductiveFinetuning": transductive_finetuning,
}


def unit(support: Tensor, query: Tensor) -> Pair:
    """Scale to length 1."""
    return F.normalize(support, dim=-1), F.normalize(query, dim=-1)


def centred(support: Tensor, query: Tensor) -> Pair:
    """Centre on the support's mean, then scale to length 1."""
    mean = support.mean(dim=1, keepdim=True)
    return unit(support - mean, query - mean)


def together(support: Tensor, query: Tensor) -> Pair:
    """Centre on the mean of support and queries, then scale to length 1."""
    mean = torch.cat([support, query], dim=1).mean(dim=1, keepdim=True)
    return unit(support - mean, query - mean)


def apart(support: Tensor, query: Tensor) -> Pair:
    """Centre support and queries separately, each on its own mean."""
    return unit(support - support.mean(dim=1, keepdim=True), query - query.mean(1, keepdim=True))


def rooted(support: Tensor, query: Tensor) -> Pair:
    """Preprocess as PT-MAP's authors do: roots if nonnegative, length 1, separate centring."""
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
    """A method as a learner."""

    method: str
    preparation: str
    options: tuple[tuple[str, float], ...] = ()
    """Options that differ from easyfsl's defaults."""
    paradigm: ClassVar[Paradigm] = Paradigm.EXPLICIT

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        """Predict the queries given the support: log-probabilities (B, m, K)."""
        examples, queries = PREPARATIONS[self.preparation](support.features, query_features)
        labels = F.one_hot(support.class_indices, support.ways).to(examples.dtype)
        answer = partial(METHODS[self.method], **dict(self.options))
        chances = answer(Rows(examples, queries, labels))
        chances = chances.clamp_min(1e-12)  # transport plans sum to about 1 and have 0
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
"""Candidate settings of each peer."""
