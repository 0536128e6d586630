"""The rows of a committee relate to each other, and queries to them, as pairs of rows do."""

import pytest
import torch
from torch import Tensor

from unitail.randomness import stream
from unitail.relational.config import PRESETS
from unitail.relational.geometry import GeometrySettings
from unitail.relational.large import members
from unitail.relational.large.first_answer import LargeReading
from unitail.relational.large.members import Members
from unitail.relational.large.moments import LabelledRows
from unitail.relational.model import Relational
from unitail.relational.regressions import NUM_OPERATORS, OPERATORS, invert, leave_one_out
from unitail.relational.relations import FROM_ORIGIN, channels, relate

WAYS, COUNT, WIDTH = 3, 25, 6


def read(*, origin: bool = True) -> LargeReading:
    features = torch.randn(COUNT, WIDTH, generator=stream(0), dtype=torch.float64) + 0.5
    features[7] = 0  # a row at the origin has no direction
    rows = LabelledRows(features, torch.arange(COUNT) % WAYS, WAYS)
    weighing = Relational(PRESETS["tiny"], seed=1).double().requires_grad_(False).weighing
    return LargeReading.of(rows, weighing, origin=origin)


def queries() -> Tensor:
    asked = torch.randn(7, WIDTH, generator=stream(1), dtype=torch.float64) + 0.5
    asked[2] *= 1e3  # far from all rows
    return asked


@pytest.mark.parametrize("origin", [True, False])
@pytest.mark.parametrize("size", [4, COUNT])
def test_relations_are_those_of_pairs(origin: bool, size: int) -> None:
    reading = read(origin=origin)
    labels = torch.nn.functional.one_hot(reading.rows.class_indices, WAYS)[None]
    frame, expected = relate(reading.rows.features[None], labels, GeometrySettings(origin=origin))
    all_members = Members.of(reading, COUNT)
    each = list(all_members.relate_each_other(size))
    assert each[0].operators.shape == (1, NUM_OPERATORS, size, COUNT)
    for name in ("channels", "operators"):
        joined = torch.cat([getattr(one, name) for one in each], dim=2)
        torch.testing.assert_close(joined, getattr(expected, name), rtol=0, atol=1e-8)
        asked = getattr(all_members.relate(queries()), name)
        wanted = getattr(frame.relate(queries()[None]), name)
        torch.testing.assert_close(asked, wanted, rtol=1e-8, atol=1e-8)


def test_some_members_solve_among_themselves_as_seen_from_the_centres_of_all_rows() -> None:
    reading, count = read(), 9
    some_members = Members.of(reading, count)
    seen = reading.moments.directions(reading.rows.features[:count])
    (own,) = some_members.relate_each_other(count)
    for place, ridge in enumerate(OPERATORS[:4]):
        units = seen[ridge.kernel.centre]  # type: ignore[attr-defined]
        solution = invert(units @ units.mT + ridge.penalty * torch.eye(count).double())
        expected = leave_one_out(solution[None, None])[0, 0]
        torch.testing.assert_close(own.operators[0, place], expected, rtol=0, atol=1e-9)
        asked = reading.moments.directions(queries())[ridge.kernel.centre]  # type: ignore[attr-defined]
        carried = some_members.relate(queries()).operators[0, place]
        torch.testing.assert_close(carried, asked @ units.mT @ solution, rtol=0, atol=1e-9)
    gaussian = some_members.inverses[NUM_OPERATORS - 1]
    assert gaussian.shape == (count, count)
    assert some_members.inverses[0].shape == (WIDTH, WIDTH)


def test_single_precision_has_the_angles_of_rows_near_the_origin() -> None:
    features = torch.randn(COUNT, WIDTH, generator=stream(0), dtype=torch.float64) + 0.5
    features[::3] *= 1e-4
    asked = queries()
    asked[::3] *= 1e-4
    both = []
    for dtype in (torch.float64, torch.float32):
        weighing = Relational(PRESETS["tiny"], seed=1).to(dtype).requires_grad_(False).weighing
        rows = LabelledRows(features.to(dtype), torch.arange(COUNT) % WAYS, WAYS)
        members = Members.of(LargeReading.of(rows, weighing, origin=True), COUNT)
        own = torch.cat([each.channels for each in members.relate_each_other(10)], dim=2)
        both.append(torch.cat([own, members.relate(asked.to(dtype)).channels], dim=2).double())
    torch.testing.assert_close(*both, rtol=0, atol=0.02)  # of 4, a cosine of 1


def test_a_row_at_the_origin_has_no_angle_seen_from_it() -> None:
    (own,) = Members.of(read(), COUNT).relate_each_other(COUNT)
    cosines = own.channels[0, list(channels(origin=True)).index(FROM_ORIGIN[0])]
    assert not cosines[7].any()
    assert cosines[6].count_nonzero() == COUNT - 1


def test_chunks_are_smaller_the_more_members_and_states_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    all_members = Members.of(read(), COUNT)
    monkeypatch.setattr(members, "PAIRS_AT_ONCE", 100 * COUNT)
    monkeypatch.setattr(members, "STATES", 1)
    assert [all_members.chunk(states) for states in (1, COUNT, 2 * COUNT, 10**6)] == [
        100,
        100,
        50,
        8,
    ]


def test_the_nearest_of_a_class_has_the_largest_cosine_from_the_centre_of_all_rows() -> None:
    reading, count = read(), 9
    rows = LabelledRows(reading.rows.features[:count], torch.arange(count) % 2, WAYS)
    nearest = Members.of(reading, count).nearest(queries(), rows)
    centre = reading.rows.features.mean(dim=0)
    seen, own = queries() - centre, rows.features - centre
    cosines = torch.nn.functional.cosine_similarity(seen[:, None], own[None], dim=2)
    for each in (0, 1):
        torch.testing.assert_close(nearest[:, each], cosines[:, each::2].amax(dim=1))
    assert (nearest[:, 2] == -1).all()  # no member is of the last class
