import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unitail.framework.episode import Episode
from unitail.framework.learner import InducedAlgorithm, InducedInference, Learner, Paradigm
from unitail.randomness import stream
from unitail.tasks.synthetic.gaussian import GaussianTasks

sizes = settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@st.composite
def episodes(draw: st.DrawFn) -> Episode:
    return GaussianTasks(feature_dims=(draw(st.integers(1, 20)),)).instances(
        episodes=draw(st.integers(1, 3)),
        ways=draw(st.integers(2, 6)),
        shots=draw(st.integers(1, 3)),
        queries=draw(st.integers(1, 3)),
        generator=stream(draw(st.integers(0, 1000))),
    )


@sizes
@given(episode=episodes())
def test_algorithm_to_inference_and_back_is_the_algorithm(
    nearest_mean: Learner, episode: Episode
) -> None:
    """A_{g_A} = A."""
    support, query = episode.support, episode.query.features
    back = InducedAlgorithm(InducedInference(nearest_mean))

    assert torch.equal(back.fit(support)(query), nearest_mean.fit(support)(query))


@sizes
@given(episode=episodes())
def test_inference_to_algorithm_and_back_is_the_inference(
    nearest_mean: Learner, episode: Episode
) -> None:
    """g_{A_g} = g."""
    support, query = episode.support, episode.query.features
    back = InducedInference(InducedAlgorithm(nearest_mean))

    assert torch.equal(back.infer(support, query), nearest_mean.infer(support, query))


@sizes
@given(episode=episodes())
def test_both_views_of_one_learner_agree(nearest_mean: Learner, episode: Episode) -> None:
    support, query = episode.support, episode.query.features
    hypothesis = InducedAlgorithm(nearest_mean).fit(support)

    assert torch.equal(hypothesis(query), InducedInference(nearest_mean).infer(support, query))


@pytest.mark.parametrize("paradigm", list(Paradigm))
def test_adapters_keep_the_paradigm(nearest_mean: Learner, paradigm: Paradigm) -> None:
    learner = type(nearest_mean)(paradigm)

    assert InducedAlgorithm(learner).paradigm is paradigm
    assert InducedInference(learner).paradigm is paradigm
