import numpy as np
import pytest
import torch

from unitail.randomness import stream
from unitail.tasks.bundled import bundled_bank, bundled_names, bundled_tasks


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


def test_each_is_a_bank_with_a_fingerprint_of_its_own() -> None:
    banks = [bundled_bank(name) for name in bundled_names()]
    assert [bank.full_name for bank in banks] == [
        *("scikit-learn/digits", "scikit-learn/wine", "scikit-learn/breast_cancer")
    ]
    assert len({bank.fingerprint for bank in banks}) == 3
    wine = banks[1]
    assert wine.class_sizes.tolist() == [59, 71, 48]
    assert np.allclose(wine.features.mean(axis=0), 0, atol=1e-5)
