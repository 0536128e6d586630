import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unitail.errors import InvalidEpisode, UserError
from unitail.tasks.instances import check_counts, split_rows

few = st.integers(1, 4)


@settings(deadline=None)  # the first example warms up
@given(episodes=few, ways=st.integers(2, 5), shots=few, queries=few, width=few)
def test_rows_go_class_by_class_to_support_and_query(
    episodes: int, ways: int, shots: int, queries: int, width: int
) -> None:
    rows = torch.arange(episodes * ways * (shots + queries) * width).float()
    rows = rows.reshape(episodes, ways, shots + queries, width)
    episode = split_rows(rows, shots)
    episode.check_values()
    support, query = episode.support, episode.query

    assert query.class_indices is not None
    for index in range(ways):
        own, asked = support.class_indices == index, query.class_indices == index
        assert torch.equal(support.features[own], rows[:, index, :shots].flatten(0, 1))
        assert torch.equal(query.features[asked], rows[:, index, shots:].flatten(0, 1))
    assert support.shots().tolist() == [[shots] * ways] * episodes
    assert (support.class_indices.diff(dim=1) >= 0).all()  # class-major


def test_all_rows_in_the_support_leave_no_query() -> None:
    with pytest.raises(InvalidEpisode, match="the query is empty"):
        split_rows(torch.zeros(1, 2, 3, 4), 3)


@pytest.mark.parametrize("name", ["episodes", "shots", "queries"])
def test_counts_below_one_are_refused(name: str) -> None:
    counts = {"episodes": 1, "shots": 1, "queries": 1}
    check_counts(**counts)
    with pytest.raises(UserError, match=f"{name} are too few: got 0; allowed: 1 or more"):
        check_counts(**{**counts, name: 0})
