"""Ways to corrupt intact inputs: bytes, JSON, archives, tables, names."""

import io
import json
import math
import random
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

EDGES = (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80")
WORDS = (
    "", " ", "NaN", "nan", "inf", "-inf", "1e999", "-0", "1e-400", "None", "null", "NA", "?", "'",
    '"', '""', ",", ";", "\t", "\0", "\ufeff", "\u202e", "\x1b[2J", "=1+1", "@x", "-x", "+1",
    "é", "日本", "\U0001f600", "a" * 200_000, "1" * 5000, "9" * 400, "0x10", "1_000", "1,5",
    "1.2.3", "../../etc/passwd", "/dev/zero", "x.png", "true", "2020-01-01", "<script>", "%s%n",
    "\\", "\r",
)  # fmt: skip
"""Cells that are empty or look like something else."""
NODES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 1.5, -1e308, math.inf, -math.inf, math.nan,
    "", "x", "a" * 5000, "\ud800", "../x", [], {}, [[]], [None], {"": None}, [1, "a"], "float16",
    "<U100000000", "O", "default", "tail",
)  # fmt: skip
"""Values to put in JSON where something else belongs."""
NAMES = (
    "new\nline", "tab\tname", "-rf", "--out", "-", "~", "$HOME", "`id`", "a b", " lead", "trail ",
    "é", "e\u0301", "日本語", "\U0001f600", "\u202egnp", "quote'", 'double"', "star*", "q?", "[x]",
    "per%cent", "semi;colon", "pipe|", "back\\slash", "x" * 240, "\x1b[31mred", "\x7f", "nul",
    "CON", ".hidden", "..x", "...", "a.b.c", "comma,", "=1+1", "@a", "<b>", "&amp;", "\udcff\udcfe",
)  # fmt: skip
"""File names that systems allow and programs rarely expect."""


def spoil(content: bytes, generator: random.Random) -> bytes:
    """Corrupt some bytes, in one to four ways."""
    for _ in range(generator.randint(1, 4)):
        content = generator.choice(WAYS)(content, generator)
    return content


def _flip(content: bytes, generator: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(min(len(data), generator.choice([1, 1, 4, 32]))):
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    return bytes(data)


def _edge(content: bytes, generator: random.Random) -> bytes:
    at = generator.randrange(
        max(1, min(len(content), generator.choice([64, 512, len(content) or 1])))
    )
    edge = generator.choice(EDGES)
    return content[:at] + edge + content[at + len(edge) :]


def _cut(content: bytes, generator: random.Random) -> bytes:
    return content[: generator.randrange(len(content) + 1)]


def _drop(content: bytes, generator: random.Random) -> bytes:
    at, size = generator.randrange(len(content) + 1), generator.choice([1, 7, 100])
    return content[:at] + content[at + size :]


def _insert(content: bytes, generator: random.Random) -> bytes:
    at = generator.randrange(len(content) + 1)
    return content[:at] + generator.randbytes(generator.choice([1, 9, 300])) + content[at:]


def _repeat(content: bytes, generator: random.Random) -> bytes:
    at, size = generator.randrange(len(content) + 1), generator.choice([4, 64, 1000])
    return content[:at] + content[at : at + size] * generator.choice([2, 50]) + content[at:]


def _tail(content: bytes, generator: random.Random) -> bytes:
    """Change bytes near the end, where zip and Parquet files have their directory."""
    at = max(0, len(content) - generator.randint(1, 200))
    return content[:at] + _flip(content[at:], generator) if content[at:] else content


Way = Callable[[bytes, random.Random], bytes]
WAYS: tuple[Way, ...] = (_flip, _flip, _edge, _edge, _cut, _drop, _insert, _repeat, _tail)


def spoil_json(content: bytes, generator: random.Random) -> bytes:
    """Replace nodes of a JSON text; sometimes corrupt its bytes or nest it deeply."""
    roll = generator.random()
    if roll < 0.15:
        return spoil(content, generator)
    if roll < 0.2:
        return b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    table = json.loads(content)
    for _ in range(generator.randint(1, 3)):
        table = spoil_node(table, generator)
    return json.dumps(table).encode()


def spoil_node(node: Any, generator: random.Random) -> Any:  # noqa: ANN401 - JSON
    """Replace, remove or add a node at a random place of a tree."""
    if isinstance(node, dict) and node and generator.random() < 0.85:
        name = generator.choice(sorted(node))
        if generator.random() < 0.15:
            return {key: value for key, value in node.items() if key != name}
        if generator.random() < 0.1:
            return {
                **node,
                generator.choice(["", "extra", "model", "cache"]): generator.choice(NODES),
            }
        return {**node, name: spoil_node(node[name], generator)}
    if isinstance(node, list) and node and generator.random() < 0.7:
        at = generator.randrange(len(node))
        changed = [spoil_node(node[at], generator)] if generator.random() < 0.8 else []
        return [*node[:at], *changed, *node[at + 1 :]]
    return generator.choice(NODES)


def spoil_zip(content: bytes, generator: random.Random) -> bytes:
    """Corrupt the members of an archive, and rewrite it with valid checksums."""
    if generator.random() < 0.35:
        return spoil(content, generator)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    victim = generator.choice(sorted(members))
    roll = generator.random()
    if roll < 0.1:
        del members[victim]
    elif roll < 0.2:
        members[victim] = bytes(50_000_000)
    else:
        members[victim] = spoil(members[victim], generator)
    kind = generator.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
    return zipped(members, kind)


def zipped(members: dict[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Write an archive."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind) as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return file.getvalue()


def spoil_safetensors(content: bytes, generator: random.Random) -> bytes:
    """Corrupt the header, the numbers or the bytes of a safetensors file."""
    roll = generator.random()
    if roll < 0.4:
        return spoil(content, generator)
    length = int.from_bytes(content[:8], "little")
    header, body = content[8 : 8 + length], content[8 + length :]
    if roll < 0.7:
        header = spoil_json(header, generator)
    else:
        numbers = np.frombuffer(body, dtype=np.uint8).copy()
        at = generator.randrange(0, max(1, len(numbers) - 8))
        value = np.array([generator.choice([np.nan, np.inf, 1e30, -1.0])], dtype="<f4")
        numbers[at - at % 4 : at - at % 4 + 4] = value.view(np.uint8)
        body = numbers.tobytes()
    return len(header).to_bytes(8, "little") + header + body


def spoil_lines(content: str, generator: random.Random) -> bytes:
    """Put hostile cells and lines into a CSV table, and change its encoding."""
    rows = [line.split(",") for line in content.splitlines()]
    for _ in range(generator.randint(1, 5)):
        row = generator.choice(rows)
        if row:
            row[generator.randrange(len(row))] = generator.choice(WORDS)
    if generator.random() < 0.2:
        generator.choice(rows).append(generator.choice(WORDS))
    if generator.random() < 0.2:
        rows.insert(generator.randrange(len(rows)), generator.choice([[], [""], ["x"] * 9]))
    delimiter = generator.choice([",", ",", ",", ";", "\t", "|"])
    end = generator.choice(["\n", "\n", "\r\n", "\r", "\n\n"])
    text = end.join(delimiter.join(row) for row in rows) + generator.choice(["", end])
    coding = generator.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
    data = text.encode(coding, "replace")
    return spoil(data, generator) if generator.random() < 0.3 else data
