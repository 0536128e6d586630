import pytest
import torch

from unitail.randomness import stream
from unitail.tail.model import LabelDictionary


def test_a_label_is_embedded_as_its_slot() -> None:
    labels = LabelDictionary(dictionary_size=6, label_dim=3)
    labels.initialise(stream(0))
    embedded = labels(torch.tensor([[4, 0, 0], [5, 1, 1]]))
    assert torch.equal(embedded[1, 2], labels.embeddings[1])
    assert embedded.shape == (2, 3, 3)


def test_embeddings_and_marker_start_at_the_scale_of_normalised_features() -> None:
    labels = LabelDictionary(dictionary_size=50, label_dim=1000)
    labels.initialise(stream(0))
    for start in (labels.embeddings, labels.query_marker):
        assert start.std().item() == pytest.approx(1, rel=0.1)
        assert start.mean().item() == pytest.approx(0, abs=0.1)
