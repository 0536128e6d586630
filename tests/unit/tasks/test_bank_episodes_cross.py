import numpy as np
import pytest
import torch

from unitail.banks.cross import CrossTable
from unitail.banks.table import FeatureTable
from unitail.errors import UserError
from unitail.randomness import stream
from unitail.tasks.bank_episodes import CrossEpisodes


def _table(domain: float, sizes: tuple[int, ...]) -> FeatureTable:
    """Return rows that say their domain, their class and which of its rows they are."""
    indices = np.repeat(np.arange(len(sizes)), sizes)
    places = np.concatenate([np.arange(size) for size in sizes])
    rows = np.stack([np.full(len(indices), domain), indices, places], axis=1)
    order = np.random.default_rng(0).permutation(len(indices))
    return FeatureTable(
        name=f"domain{domain:g}",
        encoder="net",
        features=rows[order].astype(np.float16),
        class_indices=indices[order],
        class_names=tuple("abcdefg"[: len(sizes)]),
    )


CROSS = CrossTable.of(_table(1, (3, 2, 4, 5, 1)), _table(2, (4, 9, 3, 5, 9)))


def test_examples_and_queries_come_from_their_own_table_with_the_right_classes() -> None:
    episode = CrossEpisodes(CROSS).sample(
        episodes=40, ways=3, shots=2, queries=3, generator=stream(0)
    )
    support, query = episode.support.features, episode.query.features
    assert (support[..., 0] == 1).all()
    assert (query[..., 0] == 2).all()
    seen = set()
    for number in range(40):
        meaning: dict[int, float] = {}
        rows = [
            (int(label), row.tolist())
            for indices, features in (
                (episode.support.class_indices, support),
                (episode.query.class_indices, query),
            )
            for label, row in zip(indices[number], features[number], strict=True)
        ]
        for label, (_, true_class, _) in rows:
            assert meaning.setdefault(label, true_class) == true_class
        assert len({tuple(row) for _, row in rows}) == 15  # no row twice
        assert len(set(meaning.values())) == 3
        seen |= set(meaning.values())
    assert seen == {0, 1, 2, 3}  # the last class has one example only


def test_each_class_has_its_shots_in_random_order() -> None:
    episode = CrossEpisodes(CROSS).sample(
        episodes=30, ways=4, shots=1, queries=2, generator=stream(1)
    )
    assert (episode.support.shots() == 1).all()
    labels = episode.query.class_indices
    assert labels is not None
    assert (torch.nn.functional.one_hot(labels).sum(1) == 2).all()
    assert len({tuple(row.tolist()) for row in labels}) > 20


def test_too_many_ways_are_refused() -> None:
    with pytest.raises(UserError, match=r"net/domain1->domain2 has too few .* got 4 classes of 2"):
        CrossEpisodes(CROSS).sample(episodes=1, ways=5, shots=2, queries=3, generator=stream(0))
