import torch

from helpers.builders import CONFIG
from unitail.randomness import stream
from unitail.tail.config import TailConfig
from unitail.tail.model import Tokens


def test_a_token_is_the_features_then_the_label() -> None:
    features, labels = torch.ones(2, 3, 12), torch.zeros(2, 3, 4)
    tokens = Tokens(CONFIG)(features, labels)
    assert torch.equal(tokens, torch.cat([features, labels], dim=-1))
    assert not list(Tokens(CONFIG).parameters()), "the paper has no input layer"


def test_one_marker_serves_all_queries() -> None:
    marker = torch.arange(4.0)
    tokens = Tokens(CONFIG)(torch.ones(2, 3, 12), marker)
    assert (tokens[..., 12:] == marker).all()


def test_another_hidden_width_is_reached_by_a_linear_layer() -> None:
    tokens = Tokens(TailConfig(**{**vars(CONFIG), "hidden_dim": 6}))
    tokens.initialise(stream(0))
    assert tokens(torch.ones(2, 3, 12), torch.zeros(4)).shape == (2, 3, 6)
