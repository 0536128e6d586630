"""In an episode from any source, the position of a row does not reveal its class."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest
import torch
from scipy import stats
from torch import Tensor

from helpers.tables import numbered_table
from unitail.evaluation.episodes import FixedEpisodes
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.framework.episode import Episode
from unitail.framework.task import Task
from unitail.nn.episode_model import Visibility
from unitail.randomness import stream
from unitail.tail.config import TailConfig
from unitail.tail.model import Tail
from unitail.tasks.arrays import ArrayTask
from unitail.tasks.augmentation import Disguised
from unitail.tasks.bank_episodes import BankEpisodes
from unitail.tasks.batches import EpisodeRanges, EpisodeSource, MixedSource, QueryShares
from unitail.tasks.synthetic.bags import RandomBagTasks
from unitail.tasks.synthetic.gaussian import GaussianTasks
from unitail.tasks.synthetic.networks import RandomNetworkTasks
from unitail.tasks.synthetic.tables import RandomTableTasks
from unitail.training.step import query_loss

ORDERS = 6
"""The orders of two examples of each of two classes."""
COUNT = 100 * ORDERS**2
"""Episodes: on average a hundred for each order of the support and each of the queries."""
RANGES = EpisodeRanges.fixed(episodes=COUNT, ways=2, shots=2, queries=2)
PROTOCOL = EvaluationProtocol(ways=2, shots=2, queries=2, episodes=COUNT)
RANDOM = QueryShares.RANDOM

GAUSSIAN = GaussianTasks(feature_dims=(2,))
TABLE = numbered_table([9] * 4, width=2)
BANKS = BankEpisodes([TABLE])
ARRAY = ArrayTask(features=TABLE.features, class_indices=TABLE.class_indices % 2, name="rows")
GAUSSIAN_TASK = GAUSSIAN.task(ways=2, generator=stream(0))
SOURCES: dict[str, EpisodeSource] = {
    "gaussian": GAUSSIAN,
    "networks": RandomNetworkTasks(feature_dims=(2,), hidden_dims=(2,), latent_dims=(2,)),
    "bags": RandomBagTasks(feature_dims=(2,), sizes=(2,), topic_dims=(2,), parts=3),
    "tables": RandomTableTasks(columns=(1, 2)),
    "banks": BANKS,
    "streamed banks": BankEpisodes([TABLE], resident_bytes=0),
    "mixed": MixedSource((GAUSSIAN, BANKS), (1.0, 1.0)),
    "disguised": Disguised(GAUSSIAN, 1.0),
}


def _from_source(source: EpisodeSource, ranges: EpisodeRanges = RANGES) -> list[Episode]:
    return [source.choose_batch(ranges, stream(0)).sample(stream(1))]


def _merged() -> list[Episode]:
    """Draw disguised episodes of which two classes have become one, with two of four examples."""
    ranges = EpisodeRanges.fixed(episodes=COUNT, ways=4, shots=2, queries=1)
    batches = (SOURCES["disguised"].choose_batch(ranges, stream(seed)) for seed in count())
    batch = next(each for each in batches if (each.shape.ways, each.shape.shots) == (2, 2))
    return [batch.sample(stream(0))]


def _from_task(task: Task) -> list[Episode]:
    return [task.sample(episodes=COUNT, shots=2, queries=2, generator=stream(0))]


def _fixed(source: object, protocol: EvaluationProtocol = PROTOCOL) -> list[Episode]:
    return [batch.episode for batch in FixedEpisodes.of(source, protocol).batches()]


CASES: dict[str, Callable[[], list[Episode]]] = {
    **{name: lambda source=source: _from_source(source) for name, source in SOURCES.items()},
    **{
        f"{name}, random shares": lambda source=source: _from_source(
            source,
            replace(RANGES, query_shares=RANDOM, concentration=9.0, tokens=4 * RANGES.tokens),
        )
        for name, source in SOURCES.items()
    },
    "disguised and merged": _merged,
    "array task": lambda: _from_task(ARRAY),
    "gaussian task": lambda: _from_task(GAUSSIAN_TASK),
    "instances": lambda: [
        GAUSSIAN.instances(episodes=COUNT, ways=2, shots=2, queries=2, generator=stream(0))
    ],
    "evaluation on a table": lambda: _fixed(TABLE),
    "evaluation on a table, random shares": lambda: _fixed(
        TABLE, replace(PROTOCOL, query_shares=RANDOM, concentration=9.0, episodes=4 * COUNT)
    ),
    "evaluation on a source": lambda: _fixed(GAUSSIAN),
    "evaluation on an array task": lambda: _fixed(ARRAY),
    "evaluation on a gaussian task": lambda: _fixed(GAUSSIAN_TASK),
}


def _order(classes: Tensor) -> Tensor:
    """Return the number of each episode's order of classes, (B, 4) -> (B,)."""
    return (classes * torch.tensor([8, 4, 2, 1])).sum(dim=1)


@pytest.mark.parametrize("name", CASES)
def test_all_orders_of_support_and_queries_are_equally_likely(name: str) -> None:
    episodes = CASES[name]()
    support = torch.cat([episode.support.class_indices for episode in episodes])  # (B, 4)
    query = torch.cat([episode.query.class_indices for episode in episodes])
    even = query.sum(dim=1) == 2  # all of them, unless the shares of the queries are random
    pairs = 16 * _order(support[even]) + _order(query[even])
    counts = pairs.unique(return_counts=True)[1].numpy()

    assert int(even.sum()) >= 0.8 * COUNT
    assert len(counts) == ORDERS**2
    assert stats.chisquare(counts).pvalue > 1e-3


def test_a_causal_model_learns_nothing_from_noise() -> None:
    """Class by class, these steps teach it 71 % of the answers: it counts the queries."""
    noise = GaussianTasks(feature_dims=(4,), separation=(1e-6, 1e-6))
    config = TailConfig(
        projected_dim=8,
        label_dim=8,
        hidden_dim=16,
        layers=2,
        heads=2,
        mlp_dim=32,
        dictionary_size=2,
        visibility=Visibility.CAUSAL,
    )
    model, generator = Tail(config, seed=0), stream(0)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)

    def answers(episodes: int) -> tuple[Tensor, Episode]:
        drawn = noise.instances(episodes=episodes, ways=2, shots=1, queries=4, generator=generator)
        return model(drawn, model.draw(drawn.support, generator)), drawn

    for _ in range(100):
        scores, drawn = answers(64)
        optimiser.zero_grad()
        query_loss(scores, drawn.query).backward()
        optimiser.step()
    with torch.no_grad():
        scores, drawn = answers(2000)
    accuracy = float((scores.argmax(dim=-1) == drawn.query.class_indices).double().mean())
    assert accuracy == pytest.approx(0.5, abs=0.03)
