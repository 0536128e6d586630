import pytest
import torch
import torch.nn.functional as F

from unitail.nn.episode_model import FeatureScale, Normalisation
from unitail.randomness import stream


def test_the_support_is_centred_and_has_root_mean_square_one() -> None:
    support = 3 + 5 * torch.randn(2, 6, 4, generator=stream(0))
    scaled = FeatureScale.of(support, Normalisation.SUPPORT)(support)
    torch.testing.assert_close(scaled.mean(dim=1), torch.zeros(2, 4), atol=1e-5, rtol=0)
    torch.testing.assert_close(scaled.pow(2).mean(dim=(1, 2)), torch.ones(2))


def test_a_query_is_scaled_by_the_supports_numbers() -> None:
    support = torch.tensor([[[0.0], [2.0]]])
    scale = FeatureScale.of(support, Normalisation.SUPPORT)
    assert scale(torch.tensor([[[5.0]]])).item() == 4


@pytest.mark.parametrize("size", [1e-30, 1e-6, 1e6, 1e30])
def test_the_unit_of_the_features_does_not_matter(size: float) -> None:
    """Squares of such numbers leave the range of float32."""
    support = torch.randn(1, 6, 4, generator=stream(0))
    plain = FeatureScale.of(support, Normalisation.SUPPORT)(support)
    scaled = FeatureScale.of(size * support, Normalisation.SUPPORT)(size * support)
    torch.testing.assert_close(scaled, plain, rtol=1e-4, atol=1e-5)


def test_a_constant_support_becomes_zero() -> None:
    support = torch.full((1, 3, 2), 7.0)
    assert (FeatureScale.of(support, Normalisation.SUPPORT)(support) == 0).all()


@pytest.mark.parametrize(("width", "squared_length"), [(4, 16), (16, 16), (20, 20)])
def test_vectors_that_leave_places_empty_are_as_long_as_tokens_that_are_filled(
    width: int, squared_length: int
) -> None:
    """Wider ones are reduced to 16 places, which leaves coordinates of root mean square one."""
    support = 3 + 5 * torch.randn(2, 6, width, generator=stream(0))
    scaled = FeatureScale.of(support, Normalisation.LENGTH, 16)(support)
    lengths = scaled.pow(2).sum(dim=2).mean(dim=1)
    torch.testing.assert_close(lengths, torch.full((2,), float(squared_length)))


def test_columns_of_zeros_change_no_length() -> None:
    support = torch.randn(1, 6, 4, generator=stream(0))
    padded = F.pad(support, (0, 5))
    narrow, wide = (FeatureScale.of(x, Normalisation.LENGTH, 16)(x) for x in (support, padded))
    torch.testing.assert_close(wide[..., :4], narrow)
    short = FeatureScale.of(padded, Normalisation.SUPPORT, 16)(padded)[..., :4]
    assert not torch.allclose(short, FeatureScale.of(support, Normalisation.SUPPORT, 16)(support))


def test_none_takes_features_as_they_are() -> None:
    support = torch.randn(1, 6, 4, generator=stream(0))
    assert torch.equal(FeatureScale.of(support, Normalisation.NONE)(support), support)


@pytest.mark.parametrize(("value", "rows"), [(0.1, 7), (0.1, 50), (0.3, 6), (123.456, 5)])
def test_equal_rows_are_zero_though_their_mean_is_rounded(value: float, rows: int) -> None:
    scale = FeatureScale.of(torch.full((1, rows, 2), value), Normalisation.SUPPORT)
    assert (scale(torch.full((1, rows, 2), value)) == 0).all()
    assert (scale(torch.zeros(1, 1, 2)) == 0).all()


@pytest.mark.parametrize("normalisation", [Normalisation.SUPPORT, Normalisation.LENGTH])
@pytest.mark.parametrize("size", [1.0, 1e-200, 1e200])
def test_chunks_of_rows_have_the_scale_of_all(size: float, normalisation: Normalisation) -> None:
    support = size * (3 + torch.randn(2, 7, 4, generator=stream(0), dtype=torch.float64))
    whole = FeatureScale.of(support, normalisation, 16)
    chunks = FeatureScale.of_chunks(torch.split(support, 3, dim=1), normalisation, 16)
    torch.testing.assert_close(chunks.centre, whole.centre)
    torch.testing.assert_close(chunks.scale, whole.scale)


def test_many_chunks_are_added_in_double_precision() -> None:
    support = torch.full((1, 200, 1), 123.456)
    chunks = torch.split(support, 1, dim=1)
    assert FeatureScale.of_chunks(chunks, Normalisation.SUPPORT).scale.isinf().all()


def test_a_feature_beyond_all_bounds_stays_finite_when_squared() -> None:
    scale = FeatureScale.of(torch.tensor([[[0.0], [1.0]]]), Normalisation.SUPPORT)
    assert scale(torch.tensor([[[1e30]]])).square().isfinite().all()


def test_half_precision_is_left_before_anything_is_subtracted() -> None:
    support = torch.tensor([[[1000.0], [1002.0]]], dtype=torch.float16)
    scaled = FeatureScale.of(support, Normalisation.SUPPORT)(support)
    assert scaled.dtype == torch.float32
    assert scaled.flatten().tolist() == [-1, 1]
