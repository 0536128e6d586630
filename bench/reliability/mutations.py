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


def spoil(content: bytes, chance: random.Random) -> bytes:
    """Corrupt some bytes, in one to four ways."""
    for _ in range(chance.randint(1, 4)):
        content = chance.choice(WAYS)(content, chance)
    return content


def _flip(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(min(len(data), chance.choice([1, 1, 4, 32]))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def _edge(content: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(max(1, min(len(content), chance.choice([64, 512, len(content) or 1]))))
    edge = chance.choice(EDGES)
    return content[:at] + edge + content[at + len(edge) :]


def _cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content) + 1)]


def _drop(content: bytes, chance: random.Random) -> bytes:
    at, size = chance.randrange(len(content) + 1), chance.choice([1, 7, 100])
    return content[:at] + content[at + size :]


def _insert(content: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(content) + 1)
    return content[:at] + chance.randbytes(chance.choice([1, 9, 300])) + content[at:]


def _repeat(content: bytes, chance: random.Random) -> bytes:
    at, size = chance.randrange(len(content) + 1), chance.choice([4, 64, 1000])
    return content[:at] + content[at : at + size] * chance.choice([2, 50]) + content[at:]


def _tail(content: bytes, chance: random.Random) -> bytes:
    """Change bytes near the end, where zip and Parquet files have their directory."""
    at = max(0, len(content) - chance.randint(1, 200))
    return content[:at] + _flip(content[at:], chance) if content[at:] else content


Way = Callable[[bytes, random.Random], bytes]
WAYS: tuple[Way, ...] = (_flip, _flip, _edge, _edge, _cut, _drop, _insert, _repeat, _tail)


def spoil_json(content: bytes, chance: random.Random) -> bytes:
    """Replace nodes of a JSON text; sometimes corrupt its bytes or nest it deeply."""
    roll = chance.random()
    if roll < 0.15:
        return spoil(content, chance)
    if roll < 0.2:
        return b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    table = json.loads(content)
    for _ in range(chance.randint(1, 3)):
        table = spoil_node(table, chance)
    return json.dumps(table).encode()


def spoil_node(node: Any, chance: random.Random) -> Any:  # noqa: ANN401 - JSON
    """Replace, remove or add a node at a random place of a tree."""
    if isinstance(node, dict) and node and chance.random() < 0.85:
        name = chance.choice(sorted(node))
        if chance.random() < 0.15:
            return {key: value for key, value in node.items() if key != name}
        if chance.random() < 0.1:
            return {**node, chance.choice(["", "extra", "model", "cache"]): chance.choice(NODES)}
        return {**node, name: spoil_node(node[name], chance)}
    if isinstance(node, list) and node and chance.random() < 0.7:
        at = chance.randrange(len(node))
        changed = [spoil_node(node[at], chance)] if chance.random() < 0.8 else []
        return [*node[:at], *changed, *node[at + 1 :]]
    return chance.choice(NODES)


def spoil_zip(content: bytes, chance: random.Random) -> bytes:
    """Corrupt the members of an archive, and rewrite it with valid checksums."""
    if chance.random() < 0.35:
        return spoil(content, chance)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    victim = chance.choice(sorted(members))
    roll = chance.random()
    if roll < 0.1:
        del members[victim]
    elif roll < 0.2:
        members[victim] = bytes(50_000_000)
    else:
        members[victim] = spoil(members[victim], chance)
    kind = chance.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
    return zipped(members, kind)


def zipped(members: dict[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Write an archive."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind) as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return file.getvalue()


def spoil_safetensors(content: bytes, chance: random.Random) -> bytes:
    """Corrupt the header, the numbers or the bytes of a safetensors file."""
    roll = chance.random()
    if roll < 0.4:
        return spoil(content, chance)
    length = int.from_bytes(content[:8], "little")
    header, body = content[8 : 8 + length], content[8 + length :]
    if roll < 0.7:
        header = spoil_json(header, chance)
    else:
        numbers = np.frombuffer(body, dtype=np.uint8).copy()
        at = chance.randrange(0, max(1, len(numbers) - 8))
        value = np.array([chance.choice([np.nan, np.inf, 1e30, -1.0])], dtype="<f4")
        numbers[at - at % 4 : at - at % 4 + 4] = value.view(np.uint8)
        body = numbers.tobytes()
    return len(header).to_bytes(8, "little") + header + body


def spoil_lines(content: str, chance: random.Random) -> bytes:
    """Put hostile cells and lines into a CSV table, and change its encoding."""
    rows = [line.split(",") for line in content.splitlines()]
    for _ in range(chance.randint(1, 5)):
        row = chance.choice(rows)
        if row:
            row[chance.randrange(len(row))] = chance.choice(WORDS)
    if chance.random() < 0.2:
        chance.choice(rows).append(chance.choice(WORDS))
    if chance.random() < 0.2:
        rows.insert(chance.randrange(len(rows)), chance.choice([[], [""], ["x"] * 9]))
    delimiter = chance.choice([",", ",", ",", ";", "\t", "|"])
    end = chance.choice(["\n", "\n", "\r\n", "\r", "\n\n"])
    text = end.join(delimiter.join(row) for row in rows) + chance.choice(["", end])
    coding = chance.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
    data = text.encode(coding, "replace")
    return spoil(data, chance) if chance.random() < 0.3 else data
