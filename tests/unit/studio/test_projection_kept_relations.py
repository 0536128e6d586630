from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.pixels import Pixels
from helpers.studios import answered, open_studio, write_pictures
from unitail.estimator.classifier import TailClassifier
from unitail.relational.geometry import ORIGIN_WITHOUT_LIMIT, GeometrySettings
from unitail.relational.regressions import LOGISTIC_PENALTIES
from unitail.relational.relations import LabelFreeFit, ReferenceVectors
from unitail.studio.projection import CachedRelations, ProjectionCache, with_shared_model
from unitail.studio.studio import Studio


@pytest.fixture(scope="module")
def rows() -> Tensor:
    return torch.randn(1, 40, 12, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note how many vectors are compared anew, each time."""
    counts: list[int] = []
    relate = ReferenceVectors.relate

    def note(reference: ReferenceVectors, features: Tensor) -> object:
        counts.append(features.shape[1])
        return relate(reference, features)

    monkeypatch.setattr(ReferenceVectors, "relate", note)
    return counts


def moved(rows: Tensor, place: int) -> Tensor:
    other = rows.clone()
    other[0, place, 3] += 1e-6
    return other


def test_labelled_vectors_are_compared_again_when_anything_is_another(rows: Tensor) -> None:
    keep, labelled = CachedRelations(), rows[:, :9]
    compare = partial(keep, penalties=LOGISTIC_PENALTIES, settings=ORIGIN_WITHOUT_LIMIT)
    first = compare(labelled, 9)
    assert compare(labelled.clone(), 9) is first
    for other in (moved(labelled, 8), rows[:, :10], labelled.flip(1)):
        changed, plain = (
            compare(other, 9),
            LabelFreeFit.of(other, 9, LOGISTIC_PENALTIES, ORIGIN_WITHOUT_LIMIT),
        )
        assert changed is not first
        assert torch.equal(changed.left_out, plain.left_out)
        assert torch.equal(changed.relations.channels, plain.relations.channels)
        compare(labelled, 9)
    assert compare(labelled, 8).left_out.shape == (1, 9, 8, 8)
    assert compare(labelled, 9, penalties=LOGISTIC_PENALTIES[-1:]).steps.shape == (1, 1, 9, 9)
    assert (
        compare(labelled, 9, settings=GeometrySettings(origin=False)).relations.channels.shape[1]
        == 4
    )
    assert compare(labelled, 9, settings=GeometrySettings(limit=2.5)) is not compare(labelled, 9)


def test_vectors_that_were_met_are_remembered_number_by_number(
    rows: Tensor, met: list[int]
) -> None:
    reference = CachedRelations()(
        rows[:, :9], 9, LOGISTIC_PENALTIES, ORIGIN_WITHOUT_LIMIT
    ).reference
    asked = rows[:, 9:30]
    first = reference.relate(asked)
    assert reference.relate(asked.clone()) is first
    assert reference.relate(rows[:, 30:]).kernels.shape == (1, 9, 10, 9)
    assert reference.relate(asked) is first
    assert met == [21, 10]
    plain = LabelFreeFit.of(rows[:, :9], 9, LOGISTIC_PENALTIES, ORIGIN_WITHOUT_LIMIT).reference
    for other in (moved(asked, 20), asked[:, :20], asked.flip(1)):
        assert torch.equal(reference.relate(other).operators, plain.relate(other).operators)
    last = reference.relate(asked[:, :20])  # begins as others that came before
    assert reference.relate(asked[:, :20]) is last
    met.clear()
    reference.relate(rows[:, 9:10])
    reference.relate(rows[:, 9:10])
    assert met == [1, 1]  # one alone takes no time


def test_no_more_is_kept_than_there_is_room_for(
    rows: Tensor, met: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    each = 12 + (7 + 5 + 9) * 9
    monkeypatch.setattr("unitail.studio.projection.MAX_KEPT", 20 * each)
    reference = CachedRelations()(
        rows[:, :9], 9, LOGISTIC_PENALTIES, ORIGIN_WITHOUT_LIMIT
    ).reference
    for _ in range(3):
        for start in (9, 19, 29):
            reference.relate(rows[:, start : start + 10])
    assert met == [10] * 5
    # What takes the place of another leaves its room.
    for count in (9, 8, 10, 10):
        reference.relate(rows[:, 9 : 9 + count])
    assert met == [10] * 5 + [9, 8, 10]


def test_answers_after_a_change_of_labels_are_those_of_a_fresh_fit_to_the_last_bit() -> None:
    generator = np.random.default_rng(0)
    labels = np.arange(20) % 4
    rows = generator.normal(size=(60, 24)) + 2 * generator.normal(size=(4, 24))[np.arange(60) % 4]
    rows = rows.astype(np.float32)

    def ask(labels: np.ndarray, by: ProjectionCache) -> np.ndarray:
        own = TailClassifier(device="cpu", scale="none", random_state=0)
        return with_shared_model(own, by).fit(rows[:20], labels).predict_proba(rows[20:])

    kept = ProjectionCache(None, 0)
    before = ask(labels, kept)
    corrected = np.where(np.arange(20) == 5, 3, labels)
    merged = np.where(labels == 3, 2, labels)  # a class less
    for changed in (corrected, merged, labels):
        assert np.array_equal(ask(changed, kept), ask(changed, ProjectionCache(None, 0)))
    assert np.abs(ask(corrected, kept) - before).max() > 0.01


def test_what_a_studio_keeps_lasts_while_labelled_items_do(
    tmp_path: Path, met: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pictures(tmp_path, 24)
    studio = answered(open_studio(tmp_path, encoder=Pixels()))
    for name in ("red", "green", "blue"):
        studio.apply(lambda store, name=name: store.add_class(name))  # type: ignore[misc]
    red, green, blue = (row.id for row in studio.labels.classes())

    def label(screen: Sequence[int] = (20, 21), **class_ids: int | None) -> Callable[[], object]:
        places = {int(place[1:]): each for place, each in class_ids.items()}
        seen = {place: studio.labels.row(place).version for place in places}
        return lambda: studio.label(places, seen, author="", looked_at=screen)

    def step(act: Callable[[], object]) -> list[int]:
        """Do it, hold answers to those of the plain classifier, and tell what was compared."""
        met.clear()
        act()
        studio.answerer.answer_all()
        compared = sorted(met)
        _require_plain_answers(studio)
        return compared

    # On the screen, labelled, and the rest.
    assert step(label(_0=red, _1=green, _2=blue, _3=red, _4=red)) == [2, 5, 17]
    assert step(label(_3=green)) == []
    assert step(lambda: studio.apply(lambda store: store.undo())) == []
    assert step(lambda: studio.apply(lambda store: store.merge_classes(blue, red))) == []
    assert step(lambda: studio.apply(lambda store: store.undo())) == []
    assert step(label(_5=blue)) == [2, 6, 16]
    assert step(label(_5=None)) == []  # as it was before
    assert step(label(_4=None)) == [2, 4, 18]
    (tmp_path / "0023.png").write_bytes((tmp_path / "0000.png").read_bytes())
    assert step(studio.check_files) == [1]
    (tmp_path / "0001.png").write_bytes((tmp_path / "0010.png").read_bytes())
    assert step(studio.check_files) == [2, 4, 18]
    (tmp_path / "new.png").write_bytes((tmp_path / "0002.png").read_bytes())
    studio.check_files()
    assert step(studio.vectors.encode_all) == [1]
    assert step(label(_0=green)) == [19]
    monkeypatch.setattr("unitail.studio.answerer.CHUNK", 6)
    assert step(label(_0=red)) == [3, 5, 5, 6]
    # Elsewhere on the screen, and the chunks that gain or lose what is there.
    assert step(label(screen=(5, 6), _0=green)) == [2, 4, 5]
    studio.stop()


def _require_plain_answers(studio: Studio) -> None:
    """Hold answers to those of the classifier itself."""
    named, known = studio.labels.labelled(), studio.vectors.encoded_places()
    rows = studio.vectors.at(known)
    plain = TailClassifier(device="cpu", scale="none", random_state=0)
    plain.fit(rows[list(named.places)], named.class_ids)
    told, expected = studio.answers.at(known), plain.predict_proba(rows)
    order = np.argsort(-expected, axis=1)[:, :2]
    best = np.take_along_axis(expected, order, axis=1)
    assert np.allclose(told.probabilities, best, atol=1e-4)
    sure = best[:, 0] - best[:, 1] > 1e-3
    assert (told.class_ids[sure, 0] == plain.classes_[order[sure, 0]]).all()
