import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from unitail.encoders import sounds
from unitail.encoders.sounds import MAX_SECONDS, read_sound
from unitail.errors import Unreadable

RATE = 16_000
LENGTH = 50_001
FORMATS = [
    ("wav", "WAV", "PCM_16"),
    ("flac", "FLAC", None),
    ("ogg", "OGG", None),
    ("mp3", "MP3", None),
]


def sine(length: int = LENGTH, rate: int = RATE, frequency: float = 440.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * frequency * np.arange(length) / rate)).astype(np.float32)


def write(folder: Path, name: str, samples: np.ndarray, rate: int = RATE, **how: str) -> Path:
    path = folder / name
    soundfile.write(path, samples, rate, **how)
    return path


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    length = min(len(one), len(other))
    return float(np.corrcoef(one[:length], other[:length])[0, 1])


@pytest.mark.parametrize(("ending", "kind", "coding"), FORMATS)
def test_every_format_is_read_from_a_path_and_from_bytes(
    tmp_path: Path, ending: str, kind: str, coding: str | None
) -> None:
    path = write(tmp_path, f"söund 1.{ending}", sine(), format=kind, subtype=coding)
    for item in (path, str(path), path.read_bytes()):
        sound = read_sound(item, RATE)
        assert sound.dtype == np.float32
        assert sound.shape == (LENGTH,)
        assert correlation(sound, sine()) > 0.99


@pytest.mark.skipif(os.name != "posix", reason="names of files are texts there")
def test_names_that_are_not_text_are_opened_and_reported(tmp_path: Path) -> None:
    whole, broken = (tmp_path / os.fsdecode(name) for name in (b"\xff\xfe.wav", b"\xff.wav"))
    whole.write_bytes(write(tmp_path, "a.wav", sine()).read_bytes())
    assert len(read_sound(whole, RATE)) == LENGTH
    broken.write_bytes(b"no sound at all")
    with pytest.raises(Unreadable) as caught:
        read_sound(broken, RATE)
    assert str(caught.value).encode()  # as a terminal needs it


def test_the_content_decides_the_format_and_not_the_name(tmp_path: Path) -> None:
    path = write(tmp_path, "wrong.mp3", sine(), format="FLAC")
    np.testing.assert_allclose(read_sound(path, RATE), sine(), atol=1e-4)


@pytest.mark.parametrize("rate", [8_000, 11_025, 44_100, 96_000])
def test_any_rate_becomes_the_wanted_one(tmp_path: Path, rate: int) -> None:
    path = write(tmp_path, "a.wav", sine(rate, rate), rate)
    sound = read_sound(path, RATE)
    assert len(sound) == RATE
    inner = slice(200, -200)  # a filter rings where a sound begins and ends
    np.testing.assert_allclose(sound[inner], sine(RATE)[inner], atol=2e-3)


def test_channels_are_averaged(tmp_path: Path) -> None:
    channels = np.stack([sine(), np.zeros(LENGTH), -sine() / 2], axis=1)
    path = write(tmp_path, "a.wav", channels, subtype="FLOAT")
    np.testing.assert_allclose(read_sound(path, RATE), sine() / 6, atol=1e-6)
    np.testing.assert_allclose(read_sound((channels, RATE), RATE), sine() / 6, atol=1e-6)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.int32])
def test_whole_numbers_are_scaled_by_their_range(kind: type) -> None:
    bounds = np.iinfo(kind)
    silence = (int(bounds.min) + int(bounds.max) + 1) // 2
    samples = np.array([bounds.min, silence, bounds.max], dtype=kind)
    np.testing.assert_allclose(read_sound((samples, RATE), RATE), [-1, 0, 1], atol=0.01)


def test_a_pair_of_samples_equals_its_file(tmp_path: Path) -> None:
    path = write(tmp_path, "a.wav", sine(rate=8_000), 8_000, subtype="FLOAT")
    np.testing.assert_allclose(
        read_sound(path, RATE), read_sound((sine(rate=8_000), 8_000), RATE), atol=1e-6
    )


def test_silence_is_a_sound(tmp_path: Path) -> None:
    path = write(tmp_path, "a.flac", np.zeros(100), 8_000)
    assert read_sound(path, RATE).tolist() == [0.0] * 200


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.wav", b"hello " * 100),
        ("a.mp3", b"hello " * 100),
        ("a.raw", b"hello " * 100),
        ("a.flac", b"fLaC"),
        ("a.ogg", b"OggS"),
    ],
)
def test_what_is_no_sound_is_refused_by_name(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(Unreadable, match=rf"{name} holds no sound.*wav, flac, ogg or mp3"):
        read_sound(path, RATE)


def test_what_is_not_there_or_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.wav").touch()
    os.mkfifo(tmp_path / "pipe.wav")
    with pytest.raises(Unreadable, match=r"empty\.wav is empty: got 0 bytes"):
        read_sound(tmp_path / "empty.wav", RATE)
    for name in ("absent.wav", "pipe.wav", ".", "a\0b"):
        with pytest.raises(Unreadable, match="cannot be read as a sound"):
            read_sound(tmp_path / name, RATE)
    with pytest.raises(Unreadable, match=r"none\.wav is empty: got no samples"):
        read_sound(write(tmp_path, "none.wav", np.zeros(0)), RATE)
    with pytest.raises(Unreadable, match="a sound in memory is empty"):
        read_sound(b"", RATE)


@pytest.mark.parametrize(("ending", "kind"), [("wav", "WAV"), ("flac", "FLAC"), ("mp3", "MP3")])
def test_a_file_that_ends_too_early_is_refused(tmp_path: Path, ending: str, kind: str) -> None:
    path = write(tmp_path, f"cut.{ending}", sine(), format=kind)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(Unreadable, match=rf"cut\.{ending} is .*truncated"):
        read_sound(path, RATE)


def test_a_stream_of_unstated_length_is_whole(tmp_path: Path) -> None:
    """Programs that write wav into a pipe cannot know the length when they write the header."""
    content = bytearray(write(tmp_path, "a.wav", sine()).read_bytes())
    content[4:8] = content[40:44] = b"\xff" * 4
    assert len(read_sound(bytes(content), RATE)) == LENGTH


@pytest.mark.parametrize("strange", [np.nan, np.inf, -np.inf, 1e30])
def test_samples_that_are_not_finite_are_refused(tmp_path: Path, strange: float) -> None:
    samples = sine()
    samples[-5] = strange
    path = write(tmp_path, "a.wav", samples, subtype="FLOAT")
    with pytest.raises(Unreadable, match=r"a\.wav has samples that are not finite"):
        read_sound(path, RATE)
    with pytest.raises(Unreadable, match=f"got {str(strange)[0]}"):
        read_sound((samples, RATE), RATE)


def test_long_and_large_files_are_refused_undecoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "long.flac", np.zeros((MAX_SECONDS + 1) * 1_000), 1_000)
    monkeypatch.setattr(soundfile.SoundFile, "read", None)
    with pytest.raises(Unreadable, match=r"long\.flac is too long: got 601 seconds.*at most 600"):
        read_sound(path, RATE)
    with pytest.raises(Unreadable, match="an array of samples is too long"):
        read_sound((np.zeros(601_000), 1_000), RATE)
    monkeypatch.setattr(sounds, "MAX_SAMPLES", 100)
    with pytest.raises(Unreadable, match=r"wide\.wav is too long: .* 120 samples"):
        read_sound(write(tmp_path, "wide.wav", np.zeros((10, 12))), RATE)
    monkeypatch.setattr(sounds, "MAX_BYTES", 50)
    with pytest.raises(
        Unreadable, match=r"long\.flac cannot be read as a sound: got \d+ bytes; .*at most 50"
    ):
        read_sound(path, RATE)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (3, "not a sound: got int"),
        ((np.zeros(5),), "not a sound: got tuple"),
        (("a.wav", "b.wav"), "wrong shape or type"),
        (([[1.0], [1.0, 2.0]], RATE), "wrong shape or type"),
        ((np.zeros((2, RATE)), RATE), r"got \(2, 16000\) of float64; .*at most 64 channels"),
        ((np.zeros((5, 0)), RATE), "wrong shape or type"),
        ((np.zeros(5) > 0, RATE), "of bool"),
        ((np.zeros(0), RATE), "is empty: got no samples"),
        ((np.zeros(5), "fast"), "has no rate: got 'fast'"),
        ((np.zeros(5), 0), "unusual sampling rate: got 0; allowed: 1000 to 768000"),
    ],
)
def test_items_that_are_no_sounds_are_refused(item: object, message: str) -> None:
    with pytest.raises(Unreadable, match=message):
        read_sound(item, RATE)
