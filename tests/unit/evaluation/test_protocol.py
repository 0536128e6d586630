import numpy as np
import pytest

from unitail.configuration import from_table, to_table
from unitail.errors import InvalidConfig, UserError
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.tasks.batches import QueryShares


def test_the_name_says_what_is_asked() -> None:
    assert EvaluationProtocol().name == "5-way 1-shot"
    random = EvaluationProtocol(ways=20, shots=5, query_shares=QueryShares.RANDOM)
    assert random.name == "20-way 5-shot, Dirichlet(1) queries"
    assert random.shares == "Dirichlet(1)"
    absent = EvaluationProtocol(query_shares=QueryShares.ABSENT)
    assert absent.name == "5-way 1-shot, half of the classes absent"


@pytest.mark.parametrize(
    ("sizes", "ways", "queries"),
    [
        ((30, 30, 30, 30, 30, 30), 5, 15),
        ((30, 30, 30), 3, 15),
        ((30, 30, 30, 30, 12, 30), 5, 7),
        ((30, 30, 6, 5, 0), 3, 1),
    ],
    ids=["as asked", "fewer classes", "fewer rows", "a class too small to take part"],
)
def test_a_small_data_set_gets_what_it_allows(
    sizes: tuple[int, ...], ways: int, queries: int
) -> None:
    asked = EvaluationProtocol(shots=5)
    fitted = asked.fitted(np.array(sizes), "it")
    assert (fitted.ways, fitted.queries) == (ways, queries)
    assert (fitted.shots, fitted.episodes, fitted.seed) == (5, asked.episodes, asked.seed)


def test_a_data_set_without_two_usable_classes_is_refused() -> None:
    with pytest.raises(
        UserError, match="it has too few classes for 5 shots: got 1 classes with rows"
    ):
        EvaluationProtocol(shots=5).fitted(np.array([5, 4, 30]), "it")


@pytest.mark.parametrize(
    ("field", "value"),
    [("ways", 1), ("shots", 0), ("queries", 0), ("episodes", 1), ("concentration", 0.0)],
)
def test_none_of_something_is_refused(field: str, value: float) -> None:
    with pytest.raises(InvalidConfig, match=f"{field} is out of range: got {value}"):
        EvaluationProtocol(**{field: value})


def test_the_ranges_hold_one_shape() -> None:
    protocol = EvaluationProtocol(shots=5, query_shares=QueryShares.RANDOM, concentration=2.0)
    ranges = protocol.ranges(7)
    assert ranges.one_shape
    assert (ranges.ways[0], ranges.shots[0], ranges.queries) == (5, 5, 15)
    assert (ranges.query_shares, ranges.concentration) == (QueryShares.RANDOM, 2.0)
    assert ranges.tokens == 7 * protocol.tokens


def test_a_protocol_can_be_written_and_read() -> None:
    protocol = EvaluationProtocol(ways=7, query_shares=QueryShares.RANDOM)
    assert from_table(EvaluationProtocol, to_table(protocol), "protocol") == protocol
