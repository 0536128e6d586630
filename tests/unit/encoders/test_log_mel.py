import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestCentroid

from unitail.encoders.encoder import Modality
from unitail.encoders.log_mel import BANDS, RATE, LogMelEncoder, mel_filters, thirds
from unitail.errors import Unreadable

GENERATOR = np.random.default_rng(0)


@pytest.fixture(scope="module")
def encoder() -> LogMelEncoder:
    return LogMelEncoder(torch.device("cpu"))


def encode(encoder: LogMelEncoder, samples: np.ndarray) -> np.ndarray:
    return encoder.embed([encoder.read((samples, RATE))])[0]


def tone(frequency: float, seconds: float = 0.5) -> np.ndarray:
    return np.sin(2 * np.pi * frequency * np.arange(int(seconds * RATE)) / RATE)


def noise(seconds: float = 0.5) -> np.ndarray:
    return GENERATOR.normal(size=int(seconds * RATE))


def test_it_says_what_it_is(encoder: LogMelEncoder) -> None:
    assert (encoder.name, encoder.modality, encoder.width) == ("log-mel", Modality.AUDIO, 240)
    assert encoder.fingerprint == LogMelEncoder(torch.device("cpu")).fingerprint
    vectors = encoder.embed([np.float32(tone(300)), np.float32(noise())])
    assert vectors.shape == (2, encoder.width)
    assert vectors.dtype == np.float32
    assert encoder.embed([]).shape == (0, encoder.width)


def test_every_frequency_is_in_its_band(encoder: LogMelEncoder) -> None:
    filters = mel_filters()
    assert (filters.sum(dim=0) > 0.5).all(), "a band without a frequency"
    assert (filters[3:240].sum(dim=1) > 0.5).all(), "a frequency without a band"
    peaks = [encode(encoder, tone(frequency))[:BANDS].argmax() for frequency in (200, 800, 3000)]
    centres = [filters[round(frequency / 31.25)].argmax() for frequency in (200, 800, 3000)]
    assert peaks == centres


@pytest.mark.parametrize("gain", [1e-25, 0.01, 1e8])
def test_loudness_does_not_matter(encoder: LogMelEncoder, gain: float) -> None:
    sound = noise() * np.linspace(0.01, 1, RATE // 2)
    np.testing.assert_allclose(
        encode(encoder, gain * sound), encode(encoder, sound), rtol=1e-3, atol=1e-4
    )


def test_the_level_is_no_part_of_the_mean(encoder: LogMelEncoder) -> None:
    for sound in (tone(300), noise()):
        assert abs(encode(encoder, sound)[:BANDS].mean()) < 1e-5


def test_silence_around_a_sound_hardly_matters(encoder: LogMelEncoder) -> None:
    sound = np.concatenate([tone(300), noise()])
    padded = np.concatenate([np.zeros(RATE), sound, np.zeros(2 * RATE)])
    shift = np.abs(encode(encoder, padded) - encode(encoder, sound)).max()
    other = np.abs(encode(encoder, sound[::-1]) - encode(encoder, sound)).max()
    assert shift < 0.1 * other


@pytest.mark.parametrize("samples", [1, 100, 16_000])
def test_silence_is_the_vector_of_zeros(encoder: LogMelEncoder, samples: int) -> None:
    assert not encode(encoder, np.zeros(samples)).any()


@pytest.mark.parametrize("samples", [1, 2, 159, 161, 800])
def test_the_shortest_sounds_have_finite_vectors(encoder: LogMelEncoder, samples: int) -> None:
    vector = encode(encoder, np.ones(samples))
    assert np.isfinite(vector).all()
    assert vector.any()


def test_a_vector_depends_on_its_clip_alone(encoder: LogMelEncoder) -> None:
    clips = [encoder.read((noise(seconds), RATE)) for seconds in (0.1, 0.7, 0.3)]
    together = encoder.embed(clips)
    for clip, vector in zip(clips, together, strict=True):
        np.testing.assert_array_equal(encoder.embed([clip])[0], vector)


def test_each_part_hears_what_it_is_for(encoder: LogMelEncoder) -> None:
    """A tone that gets higher, and one that trembles, against one that stays."""
    steady, rising = tone(500, 0.6), np.concatenate([tone(f, 0.2) for f in (400, 500, 600)])
    trembling = tone(500, 0.6) * (1.1 + np.sin(2 * np.pi * 10 * np.arange(9_600) / RATE))
    parts = [encode(encoder, sound).reshape(6, BANDS) for sound in (steady, rising, trembling)]
    deviation, movement, course = (
        [np.linalg.norm(part[places]) for part in parts] for places in (1, 2, slice(3, 6))
    )
    assert deviation[1] > 1.2 * deviation[0]
    assert movement[2] > 1.2 * movement[0]
    assert course[1] > 3 * course[0]


@pytest.mark.parametrize("count", range(1, 8))
def test_thirds_cover_everything_and_none_is_empty(count: int) -> None:
    parts = thirds(torch.arange(count))
    assert all(len(part) for part in parts)
    assert torch.cat(parts).unique().tolist() == list(range(count))
    assert len({len(part) for part in parts}) <= 2


def test_kinds_of_sounds_are_told_apart(encoder: LogMelEncoder) -> None:
    """Tones, noise, clicks and sweeps of any pitch, loudness and length, from three of each."""

    def clips(count: int) -> tuple[np.ndarray, np.ndarray]:
        sounds = [
            make() for make in (any_tone, any_noise, any_clicks, any_sweep) for _ in range(count)
        ]
        return np.stack([encode(encoder, sound) for sound in sounds]), np.repeat(range(4), count)

    model = NearestCentroid().fit(*clips(3))
    assert model.score(*clips(10)) >= 0.9


def any_tone() -> np.ndarray:
    return GENERATOR.uniform(0.1, 1) * tone(
        GENERATOR.uniform(300, 600), GENERATOR.uniform(0.2, 0.8)
    )


def any_noise() -> np.ndarray:
    return GENERATOR.uniform(0.1, 1) * noise(GENERATOR.uniform(0.2, 0.8))


def any_clicks() -> np.ndarray:
    clicks = np.zeros(int(GENERATOR.uniform(0.4, 0.8) * RATE))
    clicks[:: GENERATOR.integers(1_000, 2_000)] = GENERATOR.uniform(0.1, 1)
    return clicks


def any_sweep() -> np.ndarray:
    seconds = np.arange(int(GENERATOR.uniform(0.2, 0.8) * RATE)) / RATE
    speed = GENERATOR.uniform(1_000, 2_000) / seconds[-1]
    return np.sin(2 * np.pi * (300 * seconds + speed * seconds**2 / 2))


def test_what_cannot_be_read_is_refused(encoder: LogMelEncoder) -> None:
    with pytest.raises(Unreadable, match="cannot be read as a sound"):
        encoder.read("no such file.wav")
