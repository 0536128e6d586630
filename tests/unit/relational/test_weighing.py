from dataclasses import replace

import torch
from torch import Tensor

from unitail.randomness import stream
from unitail.relational.regressions import NUM_CANDIDATES
from unitail.relational.weighing import (
    MAX_SHOTS,
    CandidateWeights,
    Evidence,
    Weighing,
    num_statistics,
)

EPISODES = 2


def evidence(count: float = 10.0, loss: Tensor | None = None) -> Evidence:
    shape = (EPISODES, NUM_CANDIDATES)
    statistics = torch.randn(EPISODES, num_statistics(NUM_CANDIDATES), generator=stream(1))
    return Evidence(
        count=torch.full((EPISODES, 1), count),
        loss=torch.full(shape, 0.5) if loss is None else loss,
        log_temperature=torch.zeros(shape),
        accuracy=torch.full(shape, 0.5),
        statistics=statistics,
    )


def weighing(*, trained: bool = True) -> Weighing:
    network = Weighing(16).requires_grad_(False)
    network.initialise(stream(0))
    if trained:
        torch.nn.init.normal_(network.last.weight, std=5.0, generator=stream(2))
    return network


def test_before_training_statistics_have_no_effect() -> None:
    factors = weighing(trained=False)(evidence(), 5, 4).factors
    torch.testing.assert_close(factors.sum(dim=1), torch.ones(EPISODES))
    assert (factors.argmax(dim=1) == 1).all()
    assert torch.equal(factors[0], factors[1])


def test_with_many_rows_the_evidence_decides_whatever_the_network_thinks() -> None:
    for best in range(NUM_CANDIDATES):
        loss = torch.full((EPISODES, NUM_CANDIDATES), 0.5)
        loss[:, best] = 0.4
        given = evidence(5000.0, loss)
        same = replace(given, statistics=given.statistics * 100)
        for each in (given, same):
            factors = weighing()(each, 500, 2).factors
            assert (factors[:, best] > 0.99 * factors.sum(dim=1)).all()


def test_a_better_loss_weighs_more_and_more_so_with_more_rows() -> None:
    loss = torch.full((EPISODES, NUM_CANDIDATES), 0.5)
    loss[:, 4] = 0.45
    shares = []
    for count in (0.0, 10.0, 100.0):
        factors = weighing(trained=False)(evidence(count, loss), 5, 4).factors
        shares.append((factors[:, 4] / factors.sum(dim=1))[0].item())
    assert shares[0] < shares[1] < shares[2]


def test_the_correction_fades_beyond_the_shots_of_training() -> None:
    network = weighing()
    within, edge, beyond, far = (
        network(evidence(), shots, 4).strength for shots in (1, MAX_SHOTS, 2 * MAX_SHOTS, 1e6)
    )
    assert torch.equal(within, edge)
    torch.testing.assert_close(beyond, edge / 2)
    assert (far < 1e-3).all()
    assert ((within > 0) & (within < 2)).all()


def test_the_first_answer_adds_up_scores() -> None:
    factors = torch.randn(2, 3, generator=stream(0))
    candidates = torch.randn(2, 3, 5, 4, generator=stream(1))
    answer = CandidateWeights(factors, torch.ones(2, 1, 1)).first_answer(candidates)
    torch.testing.assert_close(answer, torch.einsum("bc,bcrk->brk", factors, candidates))
