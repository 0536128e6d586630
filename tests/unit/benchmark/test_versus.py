"""Differences with known answers: made accuracies in the place of measured ones."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.known_learners import write_blobs
from unitail.benchmark.store import TableResult
from unitail.benchmark.suites import BenchTable
from unitail.benchmark.versus import ALL_GROUPS, Versus, versus
from unitail.evaluation.metrics import Calibration
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.evaluation.result import Evaluation, Outcome, Scores

PROTOCOL = EvaluationProtocol(episodes=100)
WAVE = np.tile([0.02, -0.02], 50)
"""Noise of mean 0 over 100 episodes."""


def _evaluation(accuracy: object, *, first_hash: int = 0) -> Evaluation:
    values = np.asarray(accuracy, np.float32)
    hashes = np.arange(first_hash, first_hash + len(values)).astype(np.uint64)
    return Evaluation(
        source="made",
        protocol=PROTOCOL,
        device="cpu",
        outcome=Outcome.ANSWERED if len(values) else Outcome.CANNOT,
        reason="",
        scores=Scores(**{**dict.fromkeys(("nll", "brier", "seconds", "memory"), values),
                         "hashes": hashes, "accuracy": values}),
        calibration=Calibration.empty(),
    )  # fmt: skip


@pytest.fixture
def results(tmp_path: Path) -> list[TableResult]:
    """Return made results: on x +10, on y (two encoders) +1 and -1, on z -4 points, on w 0."""
    made = []
    for encoder, name, group, difference in (
        ("net", "x", "images", 0.10),
        ("net", "y", "images", 0.01),
        ("other", "y", "images", -0.01),
        ("net", "z", "images", -0.04),
        ("net", "w", "words", 0.0),
    ):
        bank = write_blobs(tmp_path, name, encoder=encoder)
        table = BenchTable(group=group, bank=bank, table=bank)
        evaluations = {
            "anchor": _evaluation(0.5 + WAVE),
            "it": _evaluation(0.5 + difference + WAVE + WAVE[::-1] * 0.5),
            "cannot": _evaluation([]),
        }
        made.append(TableResult(table=table, protocol=PROTOCOL, evaluations=evaluations))
    return made


def _by_group(rows: list[Versus]) -> dict[str, Versus]:
    return {row.group: row for row in rows if row.learner == "it"}


def test_a_data_set_counts_once_and_intervals_are_of_two_kinds(results: list[TableResult]) -> None:
    rows = versus(results, "anchor")
    assert {row.learner for row in rows} == {"it"}  # nobody is compared with who cannot
    images = _by_group(rows)["images"]
    assert images.difference == pytest.approx((0.10 + 0.0 - 0.04) / 3, abs=1e-6)
    # Student's 97.5 % quantile of 2 degrees of freedom is 4.303; the three means spread by 0.0721.
    spread = np.std([0.10, 0.0, -0.04], ddof=1)
    assert images.set_half_width == pytest.approx(4.303 * spread / 3**0.5, rel=1e-3)
    # Each mean of 100 differences of spread 0.01 has 1.984 * 0.01005 / 10; y has two encoders.
    one = 1.984 * 0.01005 / 10
    assert images.episode_half_width == pytest.approx(one * (1 + 1 + 0.5) ** 0.5 / 3, rel=1e-3)
    assert images.shown


def test_wins_ties_and_losses(results: list[TableResult]) -> None:
    by_group = _by_group(versus(results, "anchor"))
    images, words, both = by_group["images"], by_group["words"], by_group[ALL_GROUPS]
    assert (images.wins, images.ties, images.losses) == (1, 1, 1)
    assert (words.wins, words.ties, words.losses) == (0, 1, 0)
    assert np.isnan(words.set_half_width)
    assert (both.wins, both.ties, both.losses) == (1, 2, 1)


def test_chance_wins_are_corrected_for(results: list[TableResult]) -> None:
    """At a difference of 2.2 errors, one data set alone is a win; one of twenty is not."""
    small = 2.2 * 0.01005 / 10
    result = results[0]
    evaluations = {
        "anchor": result.evaluations["anchor"],
        "it": _evaluation(0.5 + small + WAVE + WAVE[::-1] * 0.5),
    }
    [alone] = versus([replace(result, evaluations=evaluations)], "anchor")
    assert alone.wins == 1
    many = []
    for number in range(20):
        bank = replace(result.table.bank, name=f"set {number}")
        table = replace(result.table, bank=bank, table=bank)
        many.append(replace(result, table=table, evaluations=evaluations))
    [twenty] = versus(many, "anchor")
    assert (twenty.wins, twenty.ties) == (0, 20)


def test_answers_to_other_episodes_are_not_paired(results: list[TableResult]) -> None:
    other = _evaluation(0.5 + WAVE, first_hash=7)
    changed = [replace(each, evaluations={**each.evaluations, "it": other}) for each in results]
    assert versus(changed, "anchor") == []
