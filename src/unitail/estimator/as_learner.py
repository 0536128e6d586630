"""`TailClassifier` as a learner, for reports and benchmarks that ask batches of episodes."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from unitail.errors import InvalidConfig
from unitail.estimator.fitted import Fitted, ReadingRule, adjusted
from unitail.estimator.rows import Rows
from unitail.estimator.scaling import Scale, Scales, Scaling
from unitail.estimator.settings import Parameters, Settings, draw_seed
from unitail.framework.episode import Support
from unitail.framework.learner import Paradigm


@dataclass(frozen=True, eq=False)
class ClassifierLearner:
    """`TailClassifier` as a learner: its predictions after a fit, for a batch of episodes.

    With randomised models, draws differ between the episodes of a batch, and between seeds.
    """

    settings: Settings
    classifier: Parameters
    """Its class shares, prior and weights are read again for each number of classes."""

    @classmethod
    def of(cls, classifier: Parameters, random_state: int = 0) -> "ClassifierLearner":
        """Build the learner from a classifier's parameters."""
        if isinstance(classifier.class_weight, Mapping):
            raise InvalidConfig(
                "the classes of episodes have no labels that weights could name",
                got=f"class_weight={classifier.class_weight!r}",
                allowed="class_weight=None or 'balanced'",
                remedy="Leave class_weight out, or fit a classifier on your own labels.",
            )
        return cls(Settings.of(classifier, draw_seed(random_state)), copy.copy(classifier))

    @property
    def paradigm(self) -> Paradigm:
        """The paradigm of the model."""
        return self.settings.given_model.paradigm

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        """Answer queries given the supports: log-probabilities (B, m, K)."""
        settings = self.settings.for_classes(self.classifier, range(support.ways))
        features, queries = support.features.cpu().double(), query_features.cpu()
        indices = support.class_indices.cpu().numpy()
        rule = ReadingRule.of(settings, support.ways, support.feature_dim)
        in_pairs = rule.in_pairs(support.num_support)
        scaled = _scaled_alone(support, queries, settings.scale) if in_pairs else None
        if scaled is None:  # each support is scaled and reduced by itself
            rows = (
                Rows(vectors, labels, support.ways)
                for vectors, labels in zip(features.numpy(), indices, strict=True)
            )
            return torch.stack(
                [
                    torch.from_numpy(Fitted.of(each, settings).log_probabilities(asked))
                    for each, asked in zip(rows, queries.numpy(), strict=True)
                ]
            )
        learner = settings.learner(support.num_support)
        answers = learner.infer(replace(support, features=scaled[0]), scaled[1])
        return adjusted(answers, settings.offsets(indices), settings.class_shares)

    def with_seed(self, seed: int) -> "ClassifierLearner":
        """Return the same learner with other draws; see `framework.learner.reseeded`."""
        return replace(self, settings=replace(self.settings, seed=seed))


def _scaled_alone(support: Support, queries: Tensor, scale: Scales) -> tuple[Tensor, Tensor] | None:
    """Scale each of B supports and its queries (B, m, d_T) independently.

    None if values are missing, as the indicator columns may differ between episodes; likewise for
    parts, unless all of them are left unscaled.
    """
    features, indices = support.features.cpu().double(), support.class_indices.cpu().numpy()
    if features.isnan().any() or queries.isnan().any():
        return None
    if isinstance(scale, tuple):
        return (features, queries) if set(scale) == {Scale.NONE} else None
    rows = [
        Rows(vectors, labels, support.ways)
        for vectors, labels in zip(features.numpy(), indices, strict=True)
    ]
    scalings = [Scaling.of(each, scale) for each in rows]
    if all(scaling.choice is Scale.NONE for scaling in scalings):
        return features, queries

    def scaled(rows: Tensor) -> Tensor:
        episodes = zip(scalings, rows.double(), strict=True)
        blocks = [torch.from_numpy(scaling(block.numpy())) for scaling, block in episodes]
        # Episodes may differ in the number of columns with steps; padding with zeros changes no
        # distance or angle.
        width = max(block.shape[1] for block in blocks)
        return torch.stack([F.pad(block, (0, width - block.shape[1])) for block in blocks])

    return scaled(features), scaled(queries)
