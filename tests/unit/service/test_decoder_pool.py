import asyncio
import io
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from helpers.heic import RED
from helpers.services import large_png, picture
from helpers.sounds import write_sounds
from unitail.encoders.encoder import Modality
from unitail.encoders.images import read_image
from unitail.encoders.sounds import read_sound
from unitail.errors import Unreadable
from unitail.service.decoder_pool import DecoderPool, _Process
from unitail.service.limits import ServiceLimits


def with_decoders(
    work: Callable[[DecoderPool], Awaitable[object]], *, count: int = 1, **limits: float
) -> int:
    """Run some work, and return how many decoders died."""
    deaths = []

    async def run() -> None:
        settings = ServiceLimits(decoders=count, **limits)  # type: ignore[arg-type]
        decoders = DecoderPool(settings, on_death=lambda: deaths.append(1))
        await work(decoders)
        await decoders.close()

    asyncio.run(run())
    return len(deaths)


def sound(seconds: float, rate: int = 8000, channels: int = 1) -> bytes:
    buffer = io.BytesIO()
    samples = np.random.default_rng(0).uniform(-0.5, 0.5, (int(seconds * rate), channels))
    soundfile.write(buffer, samples, rate, format="WAV")
    return buffer.getvalue()


def test_files_are_decoded_as_if_they_were_read_here(tmp_path: Path) -> None:
    wav = next(write_sounds(tmp_path / "sounds", count=1).rglob("*.wav")).read_bytes()
    stereo = sound(0.3, 22_050, 2)

    async def work(decoders: DecoderPool) -> None:
        for kind in ("PNG", "JPEG", "GIF"):
            file = picture((10, 200, 30), (7, 5), kind)
            pixels = await decoders.decode(Modality.IMAGE, file)
            assert np.array_equal(np.asarray(pixels), np.asarray(read_image(file)))
        for file in (wav, stereo):
            pair = await decoders.decode(Modality.AUDIO, file)
            assert np.array_equal(read_sound(pair, 16_000), read_sound(file, 16_000))

    assert with_decoders(work) == 0


BAD_FILES = [
    (Modality.IMAGE, b"", "the file is empty: got 0 bytes"),
    (Modality.IMAGE, b"no image", "cannot be read as an image: got an unknown format"),
    (Modality.IMAGE, picture((0, 0, 0), (20, 20))[:45], "cannot be read as an image"),
    (Modality.IMAGE, picture((0, 0, 0), (101, 100)), "too large: got 101 x 100 pixels"),
    (Modality.AUDIO, b"no sound", "holds no sound that can be decoded"),
    (Modality.AUDIO, sound(2.5), "the sound is too long: got 2 seconds; allowed: at most 2 s"),
]


def test_what_cannot_be_decoded_is_told() -> None:
    async def work(decoders: DecoderPool) -> None:
        for modality, content, sentence in BAD_FILES:
            with pytest.raises(Unreadable, match=sentence):
                await decoders.decode(modality, content)
        await decoders.decode(Modality.IMAGE, picture((0, 0, 0), (100, 100)))
        await decoders.decode(Modality.AUDIO, sound(2.0))

    assert with_decoders(work, pixels=10_000, sound_seconds=2) == 0


def test_an_image_that_explodes_costs_its_own_request() -> None:
    bomb = large_png(8000)
    assert len(bomb) < 100_000  # and 192 MB as RGB

    async def work(decoders: DecoderPool) -> None:
        with pytest.raises(Unreadable, match="at most 25,000,000 pixels"):
            await decoders.decode(Modality.IMAGE, bomb)

    assert with_decoders(work) == 0

    async def without_limit(decoders: DecoderPool) -> None:
        with pytest.raises(Unreadable, match=r"[Mm]emory|ended with"):
            await decoders.decode(Modality.IMAGE, bomb)
        await decoders.decode(Modality.IMAGE, picture((1, 2, 3)))

    assert with_decoders(without_limit, pixels=10**9, decode_bytes=350 * 2**20) <= 1


def test_what_stops_the_server_does_not_stop_its_decoders() -> None:
    async def work(decoders: DecoderPool) -> None:
        await decoders.decode(Modality.IMAGE, picture((1, 2, 3)))
        before = decoders.processes
        for stop in (signal.SIGINT, signal.SIGTERM):
            os.kill(before[0], stop)
        await decoders.decode(Modality.IMAGE, picture((1, 2, 3)))
        assert decoders.processes == before

    assert with_decoders(work) == 0


def test_the_first_heic_file_is_no_larger_than_any_other() -> None:
    async def work(decoders: DecoderPool) -> None:
        for file in (RED[:-20], RED):  # refused by what it says of itself, whole or not
            with pytest.raises(Unreadable, match="too large: got 64 x 32 pixels; allowed: at most"):
                await decoders.decode(Modality.IMAGE, file)

    assert with_decoders(work, pixels=2047) == 0


def test_a_decoder_does_not_know_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNITAIL_TOKEN", "a-token-of-24-characters")

    async def work(decoders: DecoderPool) -> None:
        await decoders.decode(Modality.IMAGE, picture((1, 2, 3)))
        known = Path(f"/proc/{decoders.processes[0]}/environ").read_bytes()
        assert b"OMP_NUM_THREADS=1" in known
        assert b"token" not in known.lower()

    with_decoders(work)


def test_a_decoder_that_is_killed_costs_its_own_request() -> None:
    good = picture((1, 2, 3))

    async def work(decoders: DecoderPool) -> None:
        await asyncio.gather(*(decoders.decode(Modality.IMAGE, good) for _ in range(2)))
        first, second = decoders.processes
        os.kill(second, signal.SIGSTOP)  # the last in is the first out
        stuck = asyncio.create_task(decoders.decode(Modality.IMAGE, good))
        await asyncio.sleep(0.05)
        await decoders.decode(Modality.IMAGE, good)  # by the other one
        os.kill(second, signal.SIGKILL)
        with pytest.raises(Unreadable, match="could not be decoded: got a decoder that ended with"):
            await stuck
        await asyncio.gather(*(decoders.decode(Modality.IMAGE, good) for _ in range(2)))
        assert first in decoders.processes
        assert second not in decoders.processes

    assert with_decoders(work, count=2) == 1


def test_a_decoder_that_died_in_the_meantime_is_replaced_unnoticed() -> None:
    async def work(decoders: DecoderPool) -> None:
        await decoders.decode(Modality.IMAGE, picture((1, 2, 3)))
        [killed] = decoders.processes
        os.kill(killed, signal.SIGKILL)
        while Path(f"/proc/{killed}").exists():  # until somebody has noticed
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        await decoders.decode(Modality.IMAGE, picture((1, 2, 3)))

    assert with_decoders(work) == 0


def test_a_decoder_that_takes_too_long_is_ended() -> None:
    async def work(decoders: DecoderPool) -> None:
        good = picture((1, 2, 3))
        await decoders.decode(Modality.IMAGE, good)
        slow = decoders.processes[0]
        os.kill(slow, signal.SIGSTOP)
        with pytest.raises(Unreadable, match="no result within 1 s"):
            await decoders.decode(Modality.IMAGE, good)
        assert not Path(f"/proc/{slow}").exists()
        await decoders.decode(Modality.IMAGE, good)

    assert with_decoders(work, decode_seconds=1.0) == 1


def test_whoever_goes_away_leaves_nothing_for_the_next() -> None:
    async def work(decoders: DecoderPool) -> None:
        red, blue = picture((255, 0, 0)), picture((0, 0, 255))
        await decoders.decode(Modality.IMAGE, red)
        gone = asyncio.create_task(decoders.decode(Modality.IMAGE, red))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        pixels = np.asarray(await decoders.decode(Modality.IMAGE, blue))
        assert pixels[0, 0].tolist() == [0, 0, 255]

    with_decoders(work)


def test_a_decoder_is_ended_in_the_middle_of_a_large_answer() -> None:
    """When its time is over, much of what it says may be unread."""
    talk = "import sys, time; sys.stdout.buffer.write(bytes(10**7)); time.sleep(60)"

    async def work() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            talk,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        decoder = _Process(process)
        assert process.stdout is not None
        await process.stdout.readexactly(2)
        await asyncio.sleep(0.2)  # as much more has come as is held without being read
        async with asyncio.timeout(20):
            await decoder.end()
        assert not decoder.is_alive

    asyncio.run(work())
