import torch

from unitail.nn.slot_model import in_working_precision


def test_tokens_take_autocasts_type_and_otherwise_keep_theirs() -> None:
    tokens = torch.randn(2, 3)
    assert in_working_precision(tokens) is tokens
    assert in_working_precision(tokens.double()).dtype == torch.float64
    with torch.autocast("cpu", torch.bfloat16):
        assert in_working_precision(tokens).dtype == torch.bfloat16
    with torch.autocast("cpu", torch.float16):
        assert in_working_precision(tokens).dtype == torch.float16
