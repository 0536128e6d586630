import torch

from unitail.randomness import PerEpisode, stream
from unitail.tasks.synthetic.table_columns import TableShape
from unitail.tasks.synthetic.tables import MAX_CELLS, MAX_COLUMNS, Rule

CLASSES = torch.arange(3).repeat(20, 100)  # (20, 300)
NUMBERS = PerEpisode(20, stream(0))


def _rule(*, parity: bool, levels: int = 3, columns: int = 2) -> Rule:
    return Rule(columns=columns, levels=levels, parity=parity, categories=False)


def test_parity_is_the_sum_of_levels() -> None:
    levels = _rule(parity=True).draw_levels(CLASSES, 3, NUMBERS)
    assert torch.equal(levels.sum(dim=2) % 3, CLASSES)
    assert set(levels.unique().tolist()) == {0, 1, 2}


def test_no_column_alone_tells_a_parity() -> None:
    classes = torch.arange(2).repeat(1, 2000)
    levels = _rule(parity=True, levels=2).draw_levels(classes, 2, PerEpisode(1, stream(1)))
    for column in levels[0].T:
        assert abs(float(column[classes[0] == 1].float().mean()) - 0.5) < 0.05


def test_a_lookup_table_has_one_class_for_a_cell_and_differs_between_episodes() -> None:
    levels = _rule(parity=False).draw_levels(CLASSES, 3, NUMBERS)
    cells = levels @ torch.tensor([1, 3])
    tables = []
    for cell, classes in zip(cells, CLASSES, strict=True):
        pairs = torch.stack([cell, classes]).unique(dim=1)
        assert pairs.shape[1] == 9  # every cell is seen, with one class
        assert pairs[1].bincount().tolist() == [3, 3, 3]
        tables.append(tuple(pairs[1].tolist()))
    assert len(set(tables)) > 15


def test_parity_of_too_few_sums_is_looked_up_and_too_few_cells_are_shared() -> None:
    many = torch.arange(4).repeat(20, 50)
    levels = _rule(parity=True, levels=2).draw_levels(many, 4, NUMBERS)  # sums 0, 1, 2
    assert all(len((row @ torch.tensor([1, 2])).unique()) == 4 for row in levels)
    few = _rule(parity=False, levels=2, columns=1).draw_levels(many, 4, NUMBERS)
    assert set(few.unique().tolist()) == {0, 1}


def test_numbers_lie_around_their_level() -> None:
    rule = _rule(parity=True)
    levels = rule.draw_levels(CLASSES, 3, NUMBERS)
    numbers = rule.numbers_of(levels, NUMBERS)
    assert (numbers - levels).abs().max() <= 0.5
    assert len(numbers.unique()) > 5000


def test_rules_fit_their_tables() -> None:
    generator = stream(0)
    for columns in (1, 2, 3, 9):
        rules = [Rule.draw(columns, generator) for _ in range(60)]
        max_columns = min(columns, MAX_COLUMNS)
        assert {rule.columns for rule in rules} == set(range(1, max_columns + 1))
        assert all(2 <= rule.cells <= MAX_CELLS for rule in rules)
        assert (
            {rule.parity for rule in rules} == {rule.categories for rule in rules} == {True, False}
        )


def test_other_columns_are_those_of_the_table_but_for_the_rules() -> None:
    layout = TableShape(numbers=5, categories=4, levels=3, missing=1)
    seen_as = {True: (5, 2), False: (3, 4)}
    for categories, (numbers, others) in seen_as.items():
        rule = Rule(columns=2, levels=3, parity=True, categories=categories)
        left = rule.others(layout)
        assert (left.numbers, left.categories) == (numbers, others)
