import pytest
import torch

from unitail.nn.episode_model import Visibility


def test_the_matrices_say_who_sees_whom() -> None:
    """Two support tokens, two queries; rows see columns."""
    assert Visibility.ISOLATED.matrix(2, 2).int().tolist() == [
        [1, 1, 0, 0],
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [1, 1, 0, 1],
    ]
    assert Visibility.CAUSAL.matrix(1, 2).int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert Visibility.JOINT.matrix(2, 1).all()


@pytest.mark.parametrize("visibility", Visibility)
def test_a_query_always_sees_the_support_and_itself(visibility: Visibility) -> None:
    matrix = visibility.matrix(3, 4)
    assert matrix[3:, :3].all()
    assert matrix.diagonal().all()
    assert visibility.isolates_queries == torch.equal(
        matrix[3:, 3:], torch.eye(4, dtype=torch.bool)
    )
