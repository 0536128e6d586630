"""The limits of a service; a request beyond one of them gets a clear refusal."""

from dataclasses import dataclass

MAX_LABEL = 256
"""Length of the longest label that can be added, in characters: numpy pads all to that length."""


@dataclass(frozen=True, kw_only=True)
class ServiceLimits:
    """Limits of one request, and of all requests in progress."""

    body_bytes: int = 32 * 2**20
    """Largest body of a request with files."""
    json_bytes: int = 8 * 2**20
    """Largest JSON body; it is parsed in one piece, while other requests wait."""
    bytes_at_work: int = 256 * 2**20
    """Total size of requests, and of answers until they were read; a request beyond it is told to
    try again later."""
    body_seconds: float = 30.0
    """Time for a body to arrive."""
    items: int = 1000
    """Vectors, texts, rows or files in one request."""
    text_characters: int = 1_000_000
    """Longest text; encoders read a few pages of it at most, but split all of it into tokens."""
    columns: int = 10_000
    """Columns in a row of a table."""
    pixels: int = 25_000_000
    """Largest image."""
    sound_seconds: float = 120.0
    """Longest sound."""
    decode_seconds: float = 10.0
    """Time to decode one file."""
    decode_bytes: int = 2**30
    """Memory of a process that decodes files."""
    decoders: int = 2
    """Processes that decode files."""
    answer_seconds: float = 30.0
    """Time from the arrival of a request to its answer."""
    concurrency: int = 64
    """Requests in progress or waiting; a request beyond it is told to try again later."""
    batch_rows: int = 64
    """Rows of several requests that are answered together; with 1, each request is on its own."""
    examples: int = 20_000
    """Largest number of examples of a classifier, including added ones."""
