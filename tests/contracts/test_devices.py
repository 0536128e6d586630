"""What learners promise on a GPU, if they need no training; models are in test_learners.py."""

import pytest
import torch

from helpers.builders import random_episode
from unitail.learners.registry import explicit_learners


@pytest.mark.parametrize("name", explicit_learners())
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_what_needs_no_training_answers_on_the_device_of_the_episode(name: str) -> None:
    learner, episode = explicit_learners()[name], random_episode(dtype=torch.float32)
    here = learner.infer(episode.support, episode.query.features)
    moved = episode.to("cuda")
    there = learner.infer(moved.support, moved.query.features)
    assert there.is_cuda
    torch.testing.assert_close(there.cpu(), here, rtol=1e-3, atol=1e-3)
