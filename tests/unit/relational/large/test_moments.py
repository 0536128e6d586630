import pytest
import torch

from unitail.randomness import stream
from unitail.relational.geometry import Geometry, GeometrySettings
from unitail.relational.large import moments
from unitail.relational.large.moments import LabelledRows, Moments, Span


def rows(classes: list[int]) -> LabelledRows:
    features = torch.randn(len(classes), 4, generator=stream(0), dtype=torch.float64) + 1
    return LabelledRows(features, torch.tensor(classes), 3)


@pytest.mark.parametrize("classes", [[0, 1, 2, 0, 1, 0, 2], [0, 1, 2]])
@pytest.mark.parametrize("origin", [True, False])
def test_sums_tell_what_pairs_tell(
    classes: list[int], origin: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unitail.relational.weighing import _shape_statistics

    monkeypatch.setattr(moments, "NUMBERS_AT_ONCE", 8)
    support = rows(classes)
    geometry, compared = Geometry.of(support.features[None], GeometrySettings(origin=origin))
    labels = torch.nn.functional.one_hot(support.class_indices, 3)[None].double()
    own = Moments.of(support, origin=origin)
    torch.testing.assert_close(own.shapes, _shape_statistics(compared, labels), rtol=0, atol=1e-10)
    torch.testing.assert_close(own.to_mean, geometry.to_mean)
    torch.testing.assert_close(own.direction, geometry.direction)
    torch.testing.assert_close(own.mean_distance, geometry.mean_distance.squeeze())
    seen = own.directions(support.features)
    torch.testing.assert_close(seen @ seen.mT, compared.cosines[:, 0], rtol=0, atol=1e-9)


def test_a_span_keeps_all_lengths_and_angles_with_the_rows() -> None:
    rows = torch.randn(4, 9, generator=stream(0), dtype=torch.float64)
    queries = torch.randn(3, 9, generator=stream(1), dtype=torch.float64)
    span = Span.of(rows)
    seen, asked = span.see(rows), span.see(queries)
    assert asked.shape == (3, 5)
    torch.testing.assert_close(asked @ seen.mT, queries @ rows.mT)
    torch.testing.assert_close(asked.norm(dim=1), queries.norm(dim=1))
    assert Span.of(rows[:, :5]).see(rows[:, :5]) is not None
    assert Span.of(queries.mT).basis is None  # there is nothing to save
