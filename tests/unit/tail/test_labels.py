import pytest
import torch

from unitail.errors import TooManyClasses
from unitail.randomness import stream
from unitail.tail.labels import LabelDictionary, draw_injections


def test_a_label_is_embedded_as_its_slot() -> None:
    labels = LabelDictionary(dictionary_size=6, label_dim=3)
    labels.initialise(stream(0))
    injection = torch.tensor([[4, 0], [1, 5]])
    embedded = labels(torch.tensor([[0, 1, 1], [1, 0, 0]]), injection)
    slots = torch.tensor([[4, 0, 0], [5, 1, 1]])
    assert torch.equal(embedded, labels.embeddings[slots])


def test_more_classes_than_slots_are_refused_with_the_way_out() -> None:
    message = (
        "more classes than the label dictionary has slots: got 8 classes; allowed: at most 7. "
        r"Use a model with a larger dictionary \(the preset 'paper-large' has 256 slots\)"
    )
    with pytest.raises(TooManyClasses, match=message):
        draw_injections(1, 8, 7, stream(0))


def test_all_slots_can_be_used_at_once() -> None:
    injections = draw_injections(4, 7, 7, stream(0))
    assert all(sorted(row.tolist()) == list(range(7)) for row in injections)


def test_embeddings_and_marker_start_at_the_scale_of_normalised_features() -> None:
    labels = LabelDictionary(dictionary_size=50, label_dim=1000)
    labels.initialise(stream(0))
    for start in (labels.embeddings, labels.query_marker):
        assert start.std().item() == pytest.approx(1, rel=0.1)
        assert start.mean().item() == pytest.approx(0, abs=0.1)
