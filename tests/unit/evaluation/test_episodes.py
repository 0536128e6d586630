import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.known_learners import write_blobs
from helpers.tables import numbered_table
from unitail.errors import UserError
from unitail.evaluation.episodes import MAX_EPISODES, MAX_TOKENS, FixedEpisodes
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.framework.episode import Episode
from unitail.randomness import stream
from unitail.tasks.arrays import ArrayTask
from unitail.tasks.bank_episodes import BankEpisodes
from unitail.tasks.batches import QueryShares
from unitail.tasks.synthetic.gaussian import GaussianTasks

TABLE = numbered_table([30] * 6)
SMALL = EvaluationProtocol(ways=3, queries=4, episodes=70)


def _hashes(source: object, protocol: EvaluationProtocol = SMALL) -> np.ndarray:
    return np.concatenate([batch.hashes for batch in FixedEpisodes.of(source, protocol).batches()])


def _array_task(name: str = "rows") -> ArrayTask:
    return ArrayTask(features=TABLE.features, class_indices=TABLE.class_indices, name=name)


SOURCES = {
    "table": TABLE,
    "banks": BankEpisodes([TABLE]),
    "tasks": GaussianTasks(feature_dims=(4,)),
    "task": _array_task(),
    "gaussian task": GaussianTasks(feature_dims=(4,)).task(ways=3, generator=stream(0)),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_the_seed_decides_the_episodes(source: object) -> None:
    first, again = _hashes(source), _hashes(source)
    other = _hashes(source, replace(SMALL, seed=1))
    assert len(set(first)) == 70
    assert np.array_equal(first, again)
    assert not set(first) & set(other)


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_fewer_episodes_are_the_first_of_more(source: object) -> None:
    assert np.array_equal(_hashes(source, replace(SMALL, episodes=57)), _hashes(source)[:57])


def test_each_name_number_of_shots_and_ways_has_episodes_of_its_own() -> None:
    def classes(**changes: object) -> list[list[float]]:
        name = changes.pop("name", "set")
        source = numbered_table([30] * 6, name=str(name))
        batch = next(FixedEpisodes.of(source, replace(SMALL, **changes)).batches())
        return batch.episode.support.features[:, 0, 0].tolist()

    same = classes()
    assert classes() == same
    assert classes(name="other") != same
    assert classes(shots=2) != same
    assert classes(ways=4) != same


def test_the_hash_is_of_the_bytes_of_an_episode() -> None:
    episode = next(FixedEpisodes.of(TABLE, SMALL).batches()).episode
    parts = (
        episode.support.features[1].contiguous(),
        episode.support.class_indices[1].contiguous(),
        episode.query.features[1].contiguous(),
        episode.query.class_indices[1].contiguous(),
    )
    digest = hashlib.blake2b(b"".join(part.numpy().tobytes() for part in parts), digest_size=8)
    assert f"{_hashes(TABLE)[1]:016x}" == digest.hexdigest()


def test_a_bank_and_its_rows_in_memory_give_the_same_episodes(tmp_path: Path) -> None:
    bank = write_blobs(tmp_path)
    whole = bank.select_classes(bank.class_names)
    assert np.array_equal(_hashes(bank), _hashes(whole))


def test_batches_are_bounded() -> None:
    assert FixedEpisodes.of(TABLE, SMALL).batch_size == MAX_EPISODES
    large = EvaluationProtocol(ways=100, shots=5)
    tasks = FixedEpisodes.of(GaussianTasks(), large)
    assert tasks.batch_size == MAX_TOKENS // (100 * 20)
    huge = FixedEpisodes.of(GaussianTasks(), EvaluationProtocol(ways=5000, shots=5))
    assert huge.batch_size == 1


def test_the_shape_is_what_the_data_allow() -> None:
    few = FixedEpisodes.of(numbered_table([9, 8, 9]), EvaluationProtocol(shots=5, episodes=2))
    assert (few.protocol.ways, few.protocol.queries) == (3, 3)
    assert few.batch(0).episode.query.num_query == 9
    task = FixedEpisodes.of(_array_task(), EvaluationProtocol(shots=20, episodes=2))
    assert (task.protocol.ways, task.protocol.queries) == (6, 10)
    assert task.batch(0).episode.ways == 6


def test_random_shares_are_those_of_the_source() -> None:
    random = replace(SMALL, query_shares=QueryShares.RANDOM)
    episode: Episode = FixedEpisodes.of(TABLE, random).batch(0).episode
    counts = torch.stack([(episode.query.class_indices == each).sum(1) for each in range(3)])
    assert counts.sum(0).unique().tolist() == [12]
    assert counts.float().std() > 1
    with pytest.raises(UserError, match="task 'rows' has balanced queries only"):
        FixedEpisodes.of(_array_task(), random)


def test_every_batch_has_a_draw_seed_of_its_own() -> None:
    seeds = [
        batch.draw_seed
        for name in ("one", "other")
        for batch in FixedEpisodes.of(numbered_table([30] * 6, name=name), SMALL).batches()
    ]
    assert len(set(seeds)) == 4
    protocol = replace(SMALL, episodes=2)
    names = ("rows", protocol.shots, 6, 0)  # what both streams are named by
    own = stream(protocol.seed, "evaluation", *names).initial_seed() % 2**31
    assert FixedEpisodes.of(_array_task(), protocol).batch(0).draw_seed != own


def test_episodes_are_these_on_every_machine() -> None:
    assert [f"{each:016x}" for each in _hashes(TABLE)[:2]] == [
        "505a1f2305b87a93",
        "d09bf179d1b0304c",
    ]


@pytest.mark.parametrize("source", ["banks/net/birds", np.zeros((3, 4)), None])
def test_what_has_no_episodes_is_refused(source: object) -> None:
    with pytest.raises(UserError, match=r"no episodes can be drawn from this: got .*FeatureBank"):
        FixedEpisodes.of(source, SMALL)
