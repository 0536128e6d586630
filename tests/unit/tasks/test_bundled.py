import pytest
import torch

from unitail.randomness import stream
from unitail.tasks.bundled import bundled_tasks


@pytest.mark.parametrize(
    ("index", "name", "width", "ways"),
    [(0, "digits", 64, 10), (1, "wine", 13, 3), (2, "breast cancer", 30, 2)],
)
def test_the_bundled_sets_are_tasks(index: int, name: str, width: int, ways: int) -> None:
    task = bundled_tasks()[index]
    assert (task.name, task.feature_dim, task.ways) == (name, width, ways)
    episode = task.sample(episodes=4, shots=2, queries=5, generator=stream(0))
    episode.check_values()
    assert episode.support.features.dtype == torch.float32
