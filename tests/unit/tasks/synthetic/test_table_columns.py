from dataclasses import replace

import numpy as np
import pandas
import torch

from unitail.encoders.table_view import STEPS, TableView
from unitail.encoders.tables import MAX_DEVIATIONS, TableEncoder
from unitail.randomness import PerEpisode, stream
from unitail.tasks.batches import BatchShape
from unitail.tasks.synthetic.table_columns import Columns, TableShape, warped, with_missing

LAYOUT = TableShape(numbers=4, categories=2, levels=3, missing=0)
NODES = torch.randn(30, 200, 9, generator=stream(0))


def _columns(seed: int = 1) -> tuple[Columns, PerEpisode]:
    numbers = PerEpisode(30, stream(seed))
    return Columns.pick(NODES, LAYOUT, numbers), numbers


def test_a_layout_counts_its_coordinates() -> None:
    layout = TableShape(numbers=5, categories=2, levels=4, missing=3)
    assert layout.columns == 7
    assert layout.width == 5 + 3 + 8


def test_columns_are_different_nodes_blurred() -> None:
    columns, _ = _columns()
    values = columns.values[:, :, :4].flatten(0, 1)
    for episode in range(30):
        together = torch.cat([NODES[episode], columns.values[episode, :, :4]], dim=1)
        related = torch.corrcoef(together.T)[9:, :9].abs()
        assert (related.max(dim=1).values > 0.9).all()
        assert len(related.argmax(dim=1).unique()) == 4
    assert values.shape == (6000, 4)


def test_a_table_may_have_more_columns_than_nodes() -> None:
    layout = TableShape(numbers=20, categories=0, levels=2, missing=0)
    columns = Columns.pick(NODES, layout, PerEpisode(30, stream(0)))
    assert columns.values.shape == (30, 200, 20)


def test_irrelevant_columns_keep_their_values_and_lose_their_relations() -> None:
    columns, numbers = _columns()
    shuffled = columns.with_irrelevant(numbers)
    relevant = shuffled.relevant.squeeze(2)
    assert relevant.any(dim=1).all()
    assert 0.5 < relevant.float().mean() < 0.95
    torch.testing.assert_close(
        shuffled.values.sort(dim=1).values, columns.values.sort(dim=1).values
    )
    kept = (shuffled.values == columns.values).all(dim=1)
    assert torch.equal(kept, relevant)
    before_after = (columns.values * shuffled.values).mean(dim=1)
    assert before_after[~relevant].abs().mean() < 0.1  # 200 rows: 1 / √200
    assert before_after[relevant].min() > 0.99
    levels_kept = (shuffled.levels == columns.levels).all(dim=1)
    assert torch.equal(levels_kept, relevant[:, 4:])


def test_vectors_are_those_of_the_encoder_of_tables() -> None:
    numbers = PerEpisode(1, stream(3))
    columns = Columns.pick(NODES[:1], LAYOUT, numbers)
    vectors = columns.encoded(LAYOUT, 50, PerEpisode(1, stream(4)))[0].numpy()
    raw = warped(columns.values[:, :, :4], PerEpisode(1, stream(4)))[0].numpy()
    frame = pandas.DataFrame(raw.astype(float), columns=list("abcd"))
    for place, name in enumerate("ef"):
        frame[name] = [f"level {level}" for level in columns.levels[0, :, place].tolist()]
    expected = TableEncoder().fit(frame[:50]).transform(frame)
    assert vectors.shape == expected.shape == (200, 10)
    np.testing.assert_allclose(vectors, expected, atol=1e-4)


def test_most_tables_are_seen_through_the_view() -> None:
    layout = replace(LAYOUT, view=True)
    shape = BatchShape(
        source="", feature_dim=layout.width, ways=2, shots=50, queries=50, episodes=30
    )
    columns, _ = _columns()
    classes = torch.arange(2).repeat(30, 100)
    plain, viewed = (
        columns.vectors(each, classes, shape, PerEpisode(30, stream(4)))
        for each in (LAYOUT, layout)
    )
    assert layout.width == LAYOUT.width + 4 * STEPS == viewed.shape[2]
    view = TableView.of(plain[:, :100], classes[:, :100], 2, torch.arange(4))
    torch.testing.assert_close(viewed, view(plain))
    other = columns.vectors(layout, 1 - classes, shape, PerEpisode(30, stream(4)))
    torch.testing.assert_close(viewed, other)  # classes may be renamed


def test_a_category_that_the_support_lacks_is_zero() -> None:
    levels = torch.zeros(1, 10, 1, dtype=torch.long)
    levels[0, 1:4] = 1
    levels[0, 8:] = 2  # of queries alone
    layout = TableShape(numbers=0, categories=1, levels=3, missing=0)
    numbers = PerEpisode(1, stream(0))
    columns = Columns.of(torch.zeros(1, 10, 0), levels, layout, numbers)
    vectors = columns.encoded(layout, 8, numbers)[0]
    assert (vectors[8:] == 0).all()
    torch.testing.assert_close(vectors[0, 0], torch.tensor(1 - (5 / 8) ** 2 - (3 / 8) ** 2).rsqrt())


def test_warps_are_monotone_and_of_several_kinds() -> None:
    values = torch.randn(50, 300, 8, generator=stream(0))
    changed = warped(values, PerEpisode(50, stream(1)))
    ordered = changed.gather(1, values.argsort(dim=1))
    assert (ordered.diff(dim=1) >= 0).all()
    same = (changed == values).all(dim=1).float().mean()
    assert 0.3 < same < 0.5
    assert (changed.amin(dim=1) > 0).any()  # exponential
    few = torch.tensor([len(column.unique()) for column in changed.movedim(1, 2).flatten(0, 1)])
    assert 0.1 < (few < 100).float().mean() < 0.3  # rounded


def test_missing_values_become_the_median_and_are_reported() -> None:
    values = torch.randn(400, 40, 3, generator=stream(0)).clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS)
    filled, indicators = with_missing(values, 2, 30, PerEpisode(400, stream(1)))
    assert indicators.shape == (400, 40, 2)
    assert torch.equal(filled[:, :, 2], values[:, :, 2])
    gone = filled[:, :, :2] != values[:, :, :2]
    assert 0.1 < gone.float().mean() < 0.4
    in_support = gone[:, :30].any(dim=1, keepdim=True)
    assert torch.equal((indicators > 0) & in_support, gone & in_support)
    above = (values[:, :, :2] * gone).sum() / gone.sum()
    assert above > 0.3  # some are missing because they are large
    episode = next(number for number in range(400) if gone[number, :30, 0].any())
    present = values[episode, :30, 0][~gone[episode, :30, 0]]
    assert filled[episode, gone[episode, :, 0], 0].unique().tolist() == [present.median().item()]
