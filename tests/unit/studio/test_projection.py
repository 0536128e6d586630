import numpy as np
import pytest
import torch

from unitail.encoders.encoder import Modality
from unitail.encoders.registry import make_encoder
from unitail.estimator.classifier import TailClassifier
from unitail.inputs.input_encoder import InputEncoder, ItemEncoder
from unitail.learners.pretrained import load_default
from unitail.relational.geometry import limited
from unitail.relational.model import Relational
from unitail.studio.projection import (
    ProjectionCache,
    SpanProjection,
    choose_projection,
    with_shared_model,
)

FACTOR = 2.5
LABELLED = 40


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    """Make vectors far from the origin, with two coordinates that are far larger than the rest."""
    generator = np.random.default_rng(0)
    rows = (
        2
        + generator.normal(size=(90, 160))
        + 3 * generator.normal(size=(5, 160))[np.arange(90) % 5]
    )
    rows[:, [3, 70]] *= 30
    rows[50] = rows[7]  # an item that is a copy of a labelled one
    return rows.astype(np.float32)


@pytest.fixture(scope="module")
def encoder() -> InputEncoder:
    return ItemEncoder(encoder=make_encoder("log-mel", Modality.AUDIO), named=True)


def classifier(precision: str) -> TailClassifier:
    return TailClassifier(device="cpu", scale="none", random_state=0, precision=precision)


@pytest.mark.parametrize("factor", [None, FACTOR])
def test_lengths_and_products_with_the_labelled_are_those_of_limited_vectors(
    rows: np.ndarray, factor: float | None
) -> None:
    span = SpanProjection.of(rows[:LABELLED], factor)
    whole = limited(torch.from_numpy(rows)[None], span.limit)[0].numpy()
    assert (span.limit is None) == (factor is None)
    assert factor is None or np.abs(whole).max() < 0.5 * np.abs(rows).max()
    short, known = span(rows), span.labelled(rows[:LABELLED])
    assert short.shape == (90, LABELLED + 1)
    scale = np.square(whole).sum(axis=1).max()
    assert np.abs(short @ known.T - whole @ whole[:LABELLED].T).max() < 1e-5 * scale
    lengths = np.square(short).sum(axis=1)
    assert np.abs(lengths - np.square(whole).sum(axis=1)).max() < 1e-5 * scale
    assert short[50, -1] < 1e-5 * np.sqrt(scale)  # of a copy nothing is left
    assert short[60, -1] > 0.1


def test_answers_are_those_of_the_plain_classifier(rows: np.ndarray, encoder: InputEncoder) -> None:
    model = load_default()
    assert isinstance(model, Relational)
    assert model.config.coordinate_limit is not None  # else nothing here is tried
    labels = np.arange(LABELLED) % 5
    plain = classifier("double").fit(rows[:LABELLED], labels).predict_proba(rows)
    span = choose_projection(encoder, rows[:LABELLED], 0, [])
    assert span is not None
    as_they_are = ProjectionCache(None, 0)

    def ask(own: TailClassifier, by: ProjectionCache) -> np.ndarray:
        return own.fit(by.labelled(rows[:LABELLED]), labels).predict_proba(by(rows))

    for by in (span, as_they_are):
        assert np.abs(ask(with_shared_model(classifier("single"), by), by) - plain).max() < 1e-4
    limited_twice = ask(classifier("single"), span)
    unlimited = ProjectionCache(SpanProjection.of(rows[:LABELLED], None), 0)
    never = ask(with_shared_model(classifier("single"), unlimited), unlimited)
    assert np.abs(limited_twice - plain).max() > 1e-3
    assert np.abs(never - plain).max() > 1e-3


def test_the_model_without_a_limit_is_not_copied_and_the_default_keeps_its_own(
    rows: np.ndarray,
) -> None:
    by = ProjectionCache(SpanProjection.of(rows[:8], FACTOR), 0)
    fitted = with_shared_model(classifier("single"), by).fit(by.labelled(rows[:8]), [0, 1] * 4)
    first = fitted.fitted_.learner.model
    assert isinstance(first, Relational)
    assert first.config.coordinate_limit is None
    default = load_default()
    assert isinstance(default, Relational)
    assert default.config.coordinate_limit is not None
    assert first.head.weight is default.head.weight


def test_rows_are_written_once_and_again_where_they_changed(rows: np.ndarray) -> None:
    own = ProjectionCache(SpanProjection.of(rows[:8], FACTOR), "key")
    places, versions = np.array([30, 2, 55]), np.array([1, 1, 1])
    first = own.at(places, versions, rows.__getitem__)
    assert np.array_equal(first, own.projection(rows[places]))
    read: list[int] = []

    def later(wanted: np.ndarray) -> np.ndarray:
        read.extend(wanted.tolist())
        return rows[wanted + 6]

    assert np.array_equal(own.at(places, versions, later), first)
    changed = own.at(places[1:], np.array([1, 2]), later)
    assert np.array_equal(changed[0], first[1])
    assert np.array_equal(changed[1], own.projection(rows[61:62])[0])
    assert read == [55]
    assert own.at(places[:0], versions[:0], later).shape == (0, 9)


def test_items_that_come_one_by_one_are_not_all_copied_each_time(rows: np.ndarray) -> None:
    own, versions = ProjectionCache(SpanProjection.of(rows[:8], FACTOR), "key"), np.array([1])
    sizes = set()
    for place in range(300):
        own.at(np.array([place]), versions, lambda wanted: rows[wanted % len(rows)])
        sizes.add(len(own._rows))
    assert len(sizes) < 20
    assert np.array_equal(own.at(np.array([299]), versions, rows.__getitem__)[0], own._rows[299])


def test_a_span_is_kept_while_the_labelled_are_the_same(
    rows: np.ndarray, encoder: InputEncoder
) -> None:
    first = choose_projection(encoder, rows[:8], "these", [])
    other = choose_projection(encoder, rows[:9], "with a pool", [])
    assert first is not None
    assert other is not None
    assert choose_projection(encoder, rows[:8], "these", [other, first]) is first
    assert choose_projection(encoder, rows[:9], "others", [first]) is not first


def test_there_is_none_where_it_saves_nothing_or_changes_answers(
    rows: np.ndarray, encoder: InputEncoder
) -> None:
    far = rows[:8] + np.float32(1e5)  # the model moves such an origin
    shorter = [choose_projection(encoder, some, 0, []) for some in (rows[:79], rows[:80], far)]
    has_one = [each is not None and each.projection is not None for each in shorter]
    assert has_one == [True, False, False]
    assert None not in shorter
    assert (
        choose_projection(encoder, rows[:79], 0, [], pooled=True) is None
    )  # it would limit them once
    assert choose_projection(encoder, np.tile(rows, (6, 1))[:501], 0, []) is None
