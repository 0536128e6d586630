import numpy as np
import pytest
import torch

from helpers.blobs import blobs
from helpers.builders import small_model
from unitail.errors import InvalidConfig
from unitail.estimator.as_learner import ClassifierLearner
from unitail.estimator.classifier import TailClassifier
from unitail.framework.episode import Support
from unitail.framework.learner import Paradigm, reseeded


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"precision": "single"},
        {"visibility": "joint"},
        {"visibility": "joint", "class_shares": [0.2, 0.3, 0.5]},
        {"max_support": 6},
        {"scale": "standard"},
        {"class_prior": [0.2, 0.3, 0.5]},
        {"class_weight": "balanced"},
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_batch_of_episodes_is_answered_as_by_fits(
    parameters: dict[str, object], dtype: torch.dtype
) -> None:
    tasks = [blobs(seed=seed) for seed in range(3)]
    support = Support(
        features=torch.stack([torch.from_numpy(X) for X, *_ in tasks]).to(dtype),
        class_indices=torch.stack([torch.from_numpy(y) for _, y, *_ in tasks]),
        ways=3,
    )
    queries = torch.stack([torch.from_numpy(Q) for *_, Q, _ in tasks]).to(dtype)
    classifier = TailClassifier(random_state=0, **parameters)
    answers = ClassifierLearner.of(classifier).infer(support, queries)
    for place in range(3):
        alone = classifier.fit(support.features[place].numpy(), support.class_indices[place])
        expected = alone.predict_log_proba(queries[place].numpy())
        np.testing.assert_allclose(answers[place].exp(), np.exp(expected), atol=1e-6)


@pytest.mark.parametrize("scale", ["auto", "none", "standard"])
def test_episodes_with_missing_values_are_answered_as_by_fits(scale: str) -> None:
    tasks = [blobs(seed=seed) for seed in range(2)]
    features = torch.stack([torch.from_numpy(X) for X, *_ in tasks])
    features[1, :, 0] = torch.nan  # a whole column of one episode, and a value of the other
    features[0, 0, 1] = torch.nan
    indices = torch.stack([torch.from_numpy(y) for _, y, *_ in tasks])
    support = Support(features=features, class_indices=indices, ways=3)
    queries = torch.stack([torch.from_numpy(Q) for *_, Q, _ in tasks])
    classifier = TailClassifier(random_state=0, scale=scale)
    answers = ClassifierLearner.of(classifier).infer(support, queries)
    for place in range(2):
        alone = classifier.fit(features[place].numpy(), indices[place])
        expected = alone.predict_proba(queries[place].numpy())
        np.testing.assert_allclose(answers[place].exp(), expected, atol=1e-6)


def test_the_paradigm_is_that_of_the_model() -> None:
    assert ClassifierLearner.of(TailClassifier()).paradigm is Paradigm.MIXED
    assert ClassifierLearner.of(TailClassifier(small_model())).paradigm is Paradigm.IMPLICIT


def test_weights_by_label_are_refused_as_episodes_have_no_labels() -> None:
    with pytest.raises(InvalidConfig, match=r"could name: got class_weight={'a': 2.0}; allowed"):
        ClassifierLearner.of(TailClassifier(class_weight={"a": 2.0}))


def test_each_seed_has_draws_of_its_own() -> None:
    rows, y, queries, _ = (torch.from_numpy(array)[None] for array in blobs())
    support = Support(features=rows, class_indices=y, ways=3)
    learner = ClassifierLearner.of(TailClassifier(small_model(), random_state=0, n_draws=1))
    first, again, other = (reseeded(learner, seed).infer(support, queries) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
