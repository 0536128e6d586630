import torch

from unitail.randomness import stream
from unitail.tail.head import Head


def test_a_class_scores_what_its_slot_scores() -> None:
    head = Head(hidden_dim=3, dictionary_size=5)
    head.initialise(stream(0))
    states = torch.randn(2, 4, 3, generator=stream(1))
    injection = torch.tensor([[4, 0], [1, 2]])
    scores = head(states, injection)
    for episode in range(2):
        expected = head.slot_scores(states[episode])[:, injection[episode]]
        torch.testing.assert_close(scores[episode], expected)
