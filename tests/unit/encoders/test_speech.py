from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from helpers.tiny_models import save_tiny_vit, save_tiny_wav2vec2
from unitail.encoders import speech
from unitail.encoders.encoder import Modality
from unitail.encoders.speech import SpeechEncoder
from unitail.errors import UnknownEncoder, Unreadable

CPU = torch.device("cpu")
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


def noise(samples: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=samples).astype(np.float32)


def save(model: torch.nn.Module, extractor: object, folder: Path) -> Path:
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            generator = torch.Generator().manual_seed(number)
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    model.save_pretrained(folder)
    extractor.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_wav2vec2(tmp_path_factory.mktemp("wav2vec2"))


@pytest.fixture(scope="module")
def encoder(folder: Path) -> SpeechEncoder:
    return SpeechEncoder(str(folder), CPU)


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> SpeechEncoder:
    """Make a Whisper that hears two seconds, in 200 columns and 100 frames."""
    config = transformers.WhisperConfig(
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        num_mel_bins=10,
        max_source_positions=100,
        vocab_size=5,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    extractor = transformers.WhisperFeatureExtractor(feature_size=10, chunk_length=2)
    folder = tmp_path_factory.mktemp("whisper")
    return SpeechEncoder(str(save(transformers.WhisperModel(config), extractor, folder)), CPU)


@pytest.fixture(scope="module")
def ast(tmp_path_factory: pytest.TempPathFactory) -> SpeechEncoder:
    """Make a spectrogram transformer that hears one second."""
    config = transformers.ASTConfig(hidden_size=16, num_mel_bins=32, max_length=100, **LAYERS)
    extractor = transformers.ASTFeatureExtractor(num_mel_bins=32, max_length=100)
    folder = tmp_path_factory.mktemp("ast")
    return SpeechEncoder(str(save(transformers.ASTModel(config), extractor, folder)), CPU)


def test_it_says_what_it_is(encoder: SpeechEncoder, folder: Path) -> None:
    assert (encoder.name, encoder.modality, encoder.width) == (str(folder), Modality.AUDIO, 16)
    assert encoder.fingerprint == SpeechEncoder(str(folder), CPU).fingerprint
    vectors = encoder.embed([noise(5_000), noise(9_000)])
    assert vectors.shape == (2, 16)
    assert vectors.dtype == np.float32
    assert encoder.embed([]).shape == (0, 16)


def test_the_vector_is_the_mean_over_the_models_frames(
    encoder: SpeechEncoder, folder: Path
) -> None:
    clip = noise(10_000)
    model = transformers.Wav2Vec2Model.from_pretrained(folder).eval()
    values = torch.from_numpy((clip - clip.mean()) / np.sqrt(clip.var() + 1e-7))[None]
    with torch.inference_mode():
        frames = model(values).last_hidden_state[0]
    assert frames.shape == (31, 16)
    np.testing.assert_allclose(encoder.embed([clip])[0], frames.mean(dim=0), atol=1e-5)


@pytest.mark.parametrize("kind", ["encoder", "whisper", "ast"])
def test_a_vector_depends_on_its_clip_alone(kind: str, request: pytest.FixtureRequest) -> None:
    model: SpeechEncoder = request.getfixturevalue(kind)
    clips = [noise(length, length) for length in (3_000, 16_000, 700)]
    together = model.embed(clips)
    for clip, vector in zip(clips, together, strict=True):
        np.testing.assert_array_equal(model.embed([clip])[0], vector)
    assert np.abs(together[0] - together[1]).max() > 1e-3


def test_files_are_read_at_the_models_rate(encoder: SpeechEncoder) -> None:
    assert len(encoder.read((noise(4_000), 8_000))) == 8_000
    with pytest.raises(Unreadable, match=r"absent\.wav cannot be read as a sound"):
        encoder.read("absent.wav")


@pytest.mark.parametrize("kind", ["encoder", "whisper", "ast"])
@pytest.mark.parametrize("samples", [1, 399, 400, 401])
def test_the_shortest_clips_have_vectors(
    kind: str, samples: int, request: pytest.FixtureRequest
) -> None:
    model: SpeechEncoder = request.getfixturevalue(kind)
    clips = [noise(samples), np.zeros(samples, dtype=np.float32)]
    assert np.isfinite(model.embed(clips)).all()


def test_a_clip_is_padded_only_to_what_one_frame_needs(encoder: SpeechEncoder) -> None:
    assert encoder._frames(noise(10)).shape == (1, 16)
    assert encoder._frames(noise(719)).shape == (1, 16)
    assert encoder._frames(noise(720)).shape == (2, 16)


@pytest.mark.parametrize("kind", ["encoder", "whisper", "ast"])
def test_long_clips_are_heard_in_pieces_to_their_end(
    kind: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    model: SpeechEncoder = request.getfixturevalue(kind)
    piece = min(model._max_samples, 16_000)
    monkeypatch.setattr(model, "_max_samples", piece)
    start, end = noise(piece), noise(piece, 1)
    both = model.embed([np.concatenate([start, end])])[0]
    np.testing.assert_allclose(both, model.embed([start, end]).mean(axis=0), atol=1e-5)
    assert np.abs(both - model.embed([start])[0]).max() > 1e-3


def test_each_model_hears_as_much_as_it_can_at_once(
    encoder: SpeechEncoder, whisper: SpeechEncoder, ast: SpeechEncoder
) -> None:
    assert encoder._max_samples == 30 * 16_000
    assert whisper._max_samples == 2 * 16_000
    assert ast._max_samples == 16_000


def test_whisper_is_averaged_over_what_is_no_padding(whisper: SpeechEncoder) -> None:
    assert whisper._frames(noise(16_000)).shape == (50, 16)
    assert whisper._frames(noise(32_000)).shape == (100, 16)


def test_a_summary_of_a_spectrogram_is_taken_as_it_is(ast: SpeechEncoder) -> None:
    clip = noise(16_000)
    inputs = ast._extractor(clip, sampling_rate=16_000, return_tensors="pt")
    with torch.inference_mode():
        expected = ast._model(**inputs).pooler_output[0]
    np.testing.assert_allclose(ast.embed([clip])[0], expected, atol=1e-6)


def test_other_models_are_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(UnknownEncoder, match="no/such-model"):
        SpeechEncoder("no/such-model", CPU)
    with pytest.raises(UnknownEncoder, match=r"model .*vit"):
        SpeechEncoder(str(save_tiny_vit(tmp_path / "vit")), CPU)


def test_a_model_that_returns_no_hidden_states_is_refused(tmp_path: Path) -> None:
    config = transformers.EncodecConfig(
        num_filters=2, hidden_size=4, codebook_dim=4, codebook_size=4, upsampling_ratios=[2, 2]
    )
    folder = save(
        transformers.EncodecModel(config), transformers.EncodecFeatureExtractor(), tmp_path
    )
    with pytest.raises(UnknownEncoder, match=r"is not a supported audio model.*wav2vec2"):
        SpeechEncoder(str(folder), CPU)


def test_the_pooling_is_part_of_the_fingerprint(
    encoder: SpeechEncoder, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speech, "POOLING", "another")
    assert SpeechEncoder(str(folder), CPU).fingerprint != encoder.fingerprint
