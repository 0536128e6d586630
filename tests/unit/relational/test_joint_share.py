"""How far joint answers yield: errors of labelled rows that are left out, one by one."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.builders import random_episode
from unitail.framework.episode import Support
from unitail.randomness import stream
from unitail.relational.config import PRESETS
from unitail.relational.joint_share import DOUBT, MARGIN, errors_without_their_label, joint_share
from unitail.relational.model import Relational


def unit_rows(*shape: int, seed: int = 0) -> Tensor:
    rows = torch.randn(*shape, generator=stream(seed, "rows"), dtype=torch.float64)
    return F.normalize(rows, dim=-1)


def one_hot(*sizes: int) -> Tensor:
    classes = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return F.one_hot(classes, len(sizes)).double()


def plain_errors(rows: Tensor, labels: Tensor) -> float:
    """Leave out rows (n, d) one by one, and measure how far they lie from each class."""
    sizes, wrong, asked = labels.sum(dim=0), 0.0, 0
    means = labels.T @ rows / sizes.unsqueeze(1)
    around = sum((rows[labels[:, k] > 0] - means[k]).square().sum() for k in range(len(sizes)))
    variance = around / (sizes - 1).sum()
    for place, row in enumerate(rows):
        own = int(labels[place].argmax())
        if sizes[own] == 1:
            continue
        distances = []
        for k in range(len(sizes)):
            others = [i for i in range(len(rows)) if labels[i, k] and i != place]
            mean = rows[others].mean(dim=0)
            distances.append(float((row - mean).square().sum() - variance / len(others)))
        mine = distances.pop(own)
        wrong += min(max((mine - min(distances)) / (2 * MARGIN) + 0.5, 0), 1)
        asked += 1
    return wrong / asked


@pytest.mark.parametrize("sizes", [(4, 4), (2, 5, 3), (1, 6, 2, 2)])
def test_errors_are_those_of_leaving_rows_out_one_by_one(sizes: tuple[int, ...]) -> None:
    labels = one_hot(*sizes)
    rows = unit_rows(2, sum(sizes), 6)
    errors = errors_without_their_label(rows @ rows.mT, labels.expand(2, -1, -1))
    expected = torch.tensor([plain_errors(each, labels) for each in rows], dtype=torch.float64)
    assert expected.amin() > 0
    torch.testing.assert_close(errors, expected)


@pytest.mark.parametrize("sizes", [(5, 5), (3, 3), (2, 8)])
def test_labels_that_mean_nothing_err_as_often_as_a_guess(sizes: tuple[int, int]) -> None:
    """Means that count as they are would put a row nearer to the class that still has all rows."""
    rows = unit_rows(2000, sum(sizes), 40)
    labels = one_hot(*sizes).expand(2000, -1, -1)
    assert errors_without_their_label(rows @ rows.mT, labels).mean() == pytest.approx(0.5, abs=0.02)


def test_rows_that_are_alone_in_their_class_say_nothing() -> None:
    rows = unit_rows(1, 3, 4)
    assert errors_without_their_label(rows @ rows.mT, one_hot(1, 1, 1).unsqueeze(0)).item() == 0


def test_copies_do_not_vouch_for_each_other() -> None:
    """Neither of rows that are there twice is known when one of them is left out."""
    rows, labels = unit_rows(2, 9, 6), one_hot(2, 4, 3).expand(2, -1, -1)
    once = errors_without_their_label(rows @ rows.mT, labels)
    twice = torch.cat([rows, rows], dim=1)
    counts = torch.cat([labels, labels], dim=1) / 2
    torch.testing.assert_close(errors_without_their_label(twice @ twice.mT, counts), once)

    given = support(50.0, (3, 3))
    doubled = replace(
        given,
        features=given.features.repeat(1, 2, 1),
        class_indices=given.class_indices.repeat(1, 2),
    )
    share = share_of(given)
    assert share < 0.8
    assert share_of(doubled) == pytest.approx(share, abs=0.1)


def support(spread: float, sizes: tuple[int, ...]) -> Support:
    """Return classes around their own means, the further from them the larger the spread."""
    labels = one_hot(*sizes)
    means = torch.randn(len(sizes), 30, generator=stream(5), dtype=torch.float64)
    noise = torch.randn(sum(sizes), 30, generator=stream(6), dtype=torch.float64)
    features = (labels @ means + spread * noise).unsqueeze(0)
    return Support(features=features, class_indices=labels.argmax(dim=1)[None], ways=len(sizes))


def share_of(given: Support) -> float:
    model = Relational(PRESETS["tiny"], seed=1).double()
    return joint_share(model._relate(given, given.features)[0].frame).item()


def test_the_share_is_one_without_errors_and_falls_with_them() -> None:
    shares = [share_of(support(spread, (6, 6, 6))) for spread in (0.1, 2.0, 50.0)]
    assert shares[0] == 1
    assert shares[0] > shares[1] > shares[2]


def test_the_share_is_what_its_formula_says() -> None:
    """As far below a guess, and as many labels of a class."""
    given = support(2.0, (8, 8))
    model = Relational(PRESETS["tiny"], seed=1).double()
    frame = model._relate(given, given.features)[0].frame
    vectors = frame.geometry.vectors[0] - frame.geometry.direction[0]
    errors = plain_errors(F.normalize(vectors, dim=1), one_hot(8, 8))
    assert 0 < errors < 0.5
    expected = 1 / (1 + (8 * (errors / 0.5) ** 2 / DOUBT) ** 2)
    assert joint_share(frame).item() == pytest.approx(expected)


def test_the_order_of_rows_and_the_names_of_classes_do_not_matter() -> None:
    episode = random_episode((4, 3, 5), queries=1, episodes=1)
    given = episode.support
    order = torch.randperm(given.num_support, generator=stream(2))
    classes = given.class_indices
    turned = replace(given, features=given.features[:, order], class_indices=classes[:, order])
    renamed = replace(given, class_indices=torch.tensor([2, 0, 1])[classes])
    share = share_of(given)
    assert 0 < share < 1
    assert share_of(turned) == pytest.approx(share, abs=1e-12)
    assert share_of(renamed) == pytest.approx(share, abs=1e-12)
