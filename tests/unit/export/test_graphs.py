import torch

from unitail.export.graphs import Exportable, newton_inverse


def test_newtons_iteration_inverts_what_models_invert() -> None:
    """Gram matrices with the smallest penalty: all rows alike is the worst there is."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(2, 40, 5, generator=generator, dtype=torch.float64)
    rows[1] = 1 + 1e-6 * rows[1]
    rows = rows / rows.norm(dim=-1, keepdim=True)
    matrices = rows @ rows.mT + 0.002 * torch.eye(40, dtype=torch.float64)
    expected = torch.linalg.inv(matrices)
    torch.testing.assert_close(newton_inverse(matrices), expected, rtol=1e-9, atol=1e-9)


def test_functions_that_stand_for_others_return_what_they_do() -> None:
    matrices = torch.tensor([[[4.0, 1.0], [1.0, 3.0]]])
    other = matrices.clone()
    with Exportable():
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(matrices))
        assert len(torch.split(matrices, 1, dim=1)) == 1
        matrices.diagonal(dim1=1, dim2=2).zero_()
        other.diagonal(dim1=1, dim2=2).add_(torch.tensor([[1.0, 2.0]]))
    torch.testing.assert_close(inverse, torch.linalg.inv(torch.tensor([[[4.0, 1.0], [1.0, 3.0]]])))
    assert matrices.tolist() == [[[0.0, 1.0], [1.0, 0.0]]]
    assert other.tolist() == [[[5.0, 1.0], [1.0, 5.0]]]
    assert len(torch.split(matrices, 1, dim=1)) == 2
