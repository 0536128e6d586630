"""Processes that decode uploads; when one of them dies, only its own request fails."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.encoder import Modality
from unitail.errors import Unreadable
from unitail.service.decoder_process import LENGTHS, pack
from unitail.service.limits import ServiceLimits

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""One numpy thread, since each reserves memory and the process has little."""
PASSED_ON = frozenset(
    ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
) | {"LANG", "LC_ALL", "HOME", "TMPDIR", "SYSTEMROOT", "TEMP"}
"""Environment variables passed on to decoders; they need no others, least of all the token."""

START_SECONDS = 60.0
"""Time for a process to become ready."""


class Died(Exception):
    """A process ended while it was decoding."""


class DecoderPool:
    """A few decoder processes, started when first needed, and again after they have died."""

    def __init__(
        self,
        limits: ServiceLimits,
        on_death: Callable[[], None] = lambda: None,
    ) -> None:
        self._limits, self._on_death = limits, on_death
        self._free: asyncio.LifoQueue[_Process | None] = asyncio.LifoQueue()
        self._count = limits.decoders
        for _ in range(self._count):
            self._free.put_nowait(None)

    async def decode(self, modality: Modality, content: bytes) -> object:
        """Return an array of pixels, or a pair (samples, rate); raise `Unreadable` if it fails."""
        if not content:
            raise Unreadable("the file is empty", got="0 bytes", allowed=f"an {modality} file")
        header = {
            "modality": str(modality),
            "max_pixels": self._limits.pixels,
            "max_seconds": self._limits.sound_seconds,
        }
        async with self._process() as process:
            try:
                async with asyncio.timeout(self._limits.decode_seconds):
                    reply, array = await process.request(pack(header, content))
            except (Died, TimeoutError) as error:
                await process.end()
                self._on_death()
                raise Unreadable(
                    "the file could not be decoded",
                    got=str(error) or f"no result within {self._limits.decode_seconds:g} s",
                    allowed=f"files that decode within {self._limits.decode_seconds:g} s"
                    f" and {self._limits.decode_bytes / 2**20:,.0f} MiB",
                    remedy="Send it in another format, or smaller.",
                ) from error
        if "error" in reply:
            raise Unreadable(**reply["error"])
        return (array, reply["rate"]) if reply["rate"] else array

    async def start(self) -> None:
        """Start the processes before they are needed."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._count):
                group.create_task(self._start_one())

    async def _start_one(self) -> None:
        async with self._process():
            await asyncio.sleep(0)

    @property
    def processes(self) -> list[int]:
        """Process ids of the idle processes."""
        return [each.pid for each in list(self._free._queue) if each]  # type: ignore[attr-defined]

    async def close(self) -> None:
        """End all processes, each once it has finished its work."""
        for _ in range(self._count):
            process = await self._free.get()
            if process is not None:
                await process.end()

    @asynccontextmanager
    async def _process(self) -> AsyncIterator["_Process"]:
        """Borrow an idle process; start one if there is none alive."""
        process = await self._free.get()
        try:
            if process is None or not process.is_alive:
                process = None
                process = await _Process.start(self._limits.decode_bytes)
            yield process
        except BaseException:  # a pending answer must not reach the next request
            if process is not None:
                await process.end()
            raise
        finally:
            self._free.put_nowait(process)


class _Process:
    """A decoder process and its pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    @classmethod
    async def start(cls, max_bytes: int) -> "_Process":
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "unitail.service.decoder_process",
            str(max_bytes),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**_environment(), **ONE_THREAD},
        )
        started = cls(process)
        try:
            async with asyncio.timeout(START_SECONDS):
                await started._read_frame()  # the process says that it is ready
        except BaseException:
            await started.end()
            raise
        return started

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    async def request(self, frame: bytes) -> tuple[dict[str, Any], NDArray[Any] | None]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(frame)
            await self._process.stdin.drain()
        except OSError as error:
            raise Died(f"a decoder that ended with {await self._process.wait()}") from error
        reply, data = await self._read_frame()
        if "error" in reply:
            return reply, None
        return reply, np.frombuffer(data, reply["dtype"]).reshape(reply["shape"])

    async def _read_frame(self) -> tuple[dict[str, Any], bytes]:
        """Read one frame: its header and its content."""
        stdout = self._process.stdout
        assert stdout is not None
        try:
            header_size, content_size = LENGTHS.unpack(await stdout.readexactly(LENGTHS.size))
            header: dict[str, Any] = json.loads(await stdout.readexactly(header_size))
            return header, await stdout.readexactly(content_size)
        except asyncio.IncompleteReadError as error:
            raise Died(f"a decoder that ended with {await self._process.wait()}") from error

    async def end(self) -> None:
        if self.is_alive:
            self._process.kill()
        await self._process.communicate()  # in Python 3.11 `wait` alone hangs on unread output


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in PASSED_ON}
