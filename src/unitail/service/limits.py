"""How much a service takes on: each limit is answered by a clear refusal."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ServiceLimits:
    """What one request may ask for, and how many may be at work."""

    body_bytes: int = 32 * 2**20
    """Of a request that brings files."""
    json_bytes: int = 8 * 2**20
    """Of a request in JSON, which is parsed in one piece: others wait as long."""
    bytes_at_work: int = 256 * 2**20
    """Of all requests that are at work; those that would bring more are told to try again."""
    body_seconds: float = 30.0
    """For a request to arrive."""
    items: int = 1000
    """Vectors, texts, rows or files of a request."""
    pixels: int = 25_000_000
    """Of an image."""
    sound_seconds: float = 120.0
    """Of a sound."""
    decode_seconds: float = 10.0
    """To decode one file."""
    decode_bytes: int = 2**30
    """Memory of a process that decodes files."""
    answer_seconds: float = 30.0
    """From the arrival of a request to its answer."""
    concurrency: int = 64
    """Requests that are at work or wait; more are told to try again later."""
    batch_rows: int = 64
    """Rows of several requests that are answered together; 1 answers each request by itself."""
    examples: int = 20_000
    """Of a classifier, after examples were added."""
