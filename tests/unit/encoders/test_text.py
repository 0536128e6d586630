import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.tiny_models import save_tiny_bert, save_tiny_distilbert, save_tiny_resnet
from unitail.encoders import text
from unitail.encoders.text import Pooling, TextEncoder, minilm_folder, read_text
from unitail.errors import MissingExtra, UnknownEncoder, Unreadable

CPU = torch.device("cpu")
TEXTS = ["the cat sat", "a dog ran far away on the mat and slept", "the cat"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_bert(tmp_path_factory.mktemp("text") / "bert", width=16, max_tokens=24)


@pytest.fixture(scope="module")
def encoder(folder: Path) -> TextEncoder:
    return TextEncoder(str(folder), CPU)


def test_a_vector_is_the_mean_over_the_tokens_of_the_text(encoder: TextEncoder) -> None:
    vectors = encoder.embed(TEXTS)
    assert vectors.shape == (3, encoder.width) == (3, 16)
    assert vectors.dtype == np.float32
    for sentence, vector in zip(TEXTS, vectors, strict=True):
        tokens = encoder._tokenizer(sentence, return_tensors="pt")
        with torch.no_grad():
            states = encoder._model(**tokens).last_hidden_state[0]
        assert len(states) == len(sentence.split()) + 2
        np.testing.assert_allclose(vector, states.mean(0).numpy(), rtol=0, atol=1e-5)
    assert np.abs(vectors[0] - vectors[2]).max() > 0.01
    assert encoder.embed([]).shape == (0, 16)


def test_distilbert(tmp_path: Path) -> None:
    encoder = TextEncoder(str(save_tiny_distilbert(tmp_path)), CPU)
    together = encoder.embed(TEXTS)
    alone = np.concatenate([encoder.embed([sentence]) for sentence in TEXTS])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-5)


def test_long_texts_are_cut_at_what_the_model_reads(folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folder, tmp_path / "copy"))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    del settings["model_max_length"]  # as some on the hub: the positions are the limit then
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    encoder = TextEncoder(str(folder), CPU)
    cut, longer = " ".join(["cat"] * 22), " ".join(["cat"] * 22 + ["dog"] * 300)
    np.testing.assert_allclose(*encoder.embed([cut, longer]), rtol=0, atol=1e-6)
    assert np.abs(np.subtract(*encoder.embed([cut, cut[4:]]))).max() > 1e-4


def test_a_sentence_transformer_is_pooled_as_its_files_say(folder: Path, tmp_path: Path) -> None:
    plain = TextEncoder(str(folder), CPU)
    folder = Path(shutil.copytree(folder, tmp_path / "copy"))
    modules = [{"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 4}')
    unit = TextEncoder(str(folder), CPU)
    np.testing.assert_allclose(np.linalg.norm(unit.embed(TEXTS), axis=1), 1, rtol=1e-6)
    expected = plain.embed(["a dog"])[0]
    np.testing.assert_allclose(
        unit.embed(TEXTS)[1], expected / np.linalg.norm(expected), rtol=0, atol=1e-6
    )
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode_cls_token": true}')
    first = TextEncoder(str(folder), CPU)
    assert np.abs(first.embed(TEXTS) - unit.embed(TEXTS)).max() > 1e-3
    assert len({plain.fingerprint, unit.fingerprint, first.fingerprint}) == 3


def test_a_tokenizer_without_padding_gets_one(folder: Path, tmp_path: Path) -> None:
    plain = TextEncoder(str(folder), CPU).embed(TEXTS)
    folder = Path(shutil.copytree(folder, tmp_path / "copy"))
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        if (folder / name).exists():
            settings = json.loads((folder / name).read_text())
            settings |= {"pad_token": None, "padding_side": "left"}
            (folder / name).write_text(json.dumps(settings))
    np.testing.assert_allclose(TextEncoder(str(folder), CPU).embed(TEXTS), plain, atol=1e-5)


def test_models_of_other_things_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownEncoder, match="cannot be loaded"):
        TextEncoder(str(save_tiny_resnet(tmp_path)), CPU)


def test_minilm(tmp_path: Path) -> None:
    encoder = TextEncoder(minilm_folder(), CPU)
    assert encoder.width == 384
    texts = ["a cat sat on the mat", "a kitten is sitting on a rug", "interest rates rose " * 60]
    vectors = encoder.embed(texts)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    likeness = vectors @ vectors.T
    assert likeness[0, 1] > 0.5 > 0.2 > likeness[0, 2]
    alone = np.concatenate([encoder.embed([sentence]) for sentence in texts])
    np.testing.assert_allclose(vectors, alone, rtol=0, atol=1e-6)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"pip install 'unitail\[offline\]'"):
        minilm_folder()


def test_strings_and_files_are_texts(tmp_path: Path, encoder: TextEncoder) -> None:
    path = tmp_path / "ein Text ü.txt"
    path.write_bytes(b"\xef\xbb\xbfgr\xc3\xbc\xc3\x9fe\n")
    assert encoder.read(path) == read_text(path) == "grüße\n"
    assert read_text(str(path)) == str(path)  # a string is a text, whatever it looks like
    assert type(read_text(np.str_("cat"))) is str


def test_what_is_no_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "latin.txt").write_bytes("grüße".encode("latin-1"))
    (tmp_path / "wide.txt").write_bytes("two words".encode("utf-16-le"))
    (tmp_path / "blank.txt").write_text(" \n")
    (tmp_path / "long.txt").write_text("x" * 100)
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(text, "MAX_BYTES", 99)
    for item, message in [
        ("", "the text is empty"),
        (" \t\n", "the text is empty"),
        ("\ud800", "the text cannot be read"),
        (b"bytes", "not a text: got bytes"),
        (None, "not a text: got NoneType"),
        (float("nan"), "not a text: got float"),
        (tmp_path / "latin.txt", r"latin\.txt cannot be read as text: got byte 0x"),
        (
            tmp_path / "wide.txt",
            r"wide\.txt cannot be read as text: got zero bytes; allowed: UTF-8",
        ),
        (tmp_path / "blank.txt", r"blank\.txt is empty"),
        (tmp_path / "long.txt", r"got 100 bytes; allowed: a file of at most 99 bytes"),
        (tmp_path / "nothing.txt", "No such file"),
        (tmp_path / "pipe", "a folder, a pipe or a device"),
        (tmp_path, "a folder, a pipe or a device"),
    ]:
        with pytest.raises(Unreadable, match=message):
            read_text(item)


def test_the_fingerprint_covers_how_tokens_become_a_vector(
    folder: Path, encoder: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "_pooling", lambda *_: replace(encoder._pooling, max_tokens=5))
    assert TextEncoder(str(folder), CPU).fingerprint != encoder.fingerprint


def test_saved_classifiers_still_know_the_pooling() -> None:
    pooling = Pooling(max_tokens=256, first_token=False, unit=True)
    assert pooling.fingerprint == "Recipe(longest=256, first_token=False, unit=True)"
