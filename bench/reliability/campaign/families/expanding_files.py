"""Small files that expand to huge ones: pixels, pages, rows, cells, nesting."""

import io
import random
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

from campaign.families.mutations import zipped


def _pixels(mode: str, width: int, height: int, form: str) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new(mode, (width, height)).save(file, format=form)
    return file.getvalue()


def _many_pages(generator: random.Random) -> tuple[str, bytes]:
    count = 150_000
    pages = [struct.pack("<H12sI", 1, struct.pack("<HHII", 256, 4, 1, 1), 8 + 18 * (number + 1))
             for number in range(count)]  # fmt: skip
    return "pages.tif", b"II*\0" + struct.pack("<I", 8) + b"".join(pages)


def _many_rows(generator: random.Random) -> tuple[str, bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    column = pa.array(["a"], pa.string()).take(pa.array(np.zeros(3 * 10**7, dtype=np.int8)))
    file = io.BytesIO()
    pq.write_table(pa.table({"x": column, "label": column}), file)
    return "rows.parquet", file.getvalue()


def _wide_sheet(generator: random.Random) -> tuple[str, bytes]:
    import openpyxl

    file = io.BytesIO()
    book = openpyxl.Workbook()
    book.active.append(["x", "label"])
    book.save(file)
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    row = b'<row><c t="inlineStr"><is><t>a</t></is></c><c><v>1</v></c></row>'
    sheet = members["xl/worksheets/sheet1.xml"]
    members["xl/worksheets/sheet1.xml"] = sheet.replace(
        b"</sheetData>", row * 12_000_000 + b"</sheetData>"
    )
    return "sheet.xlsx", zipped(members)


def _npz(**members: bytes) -> tuple[str, bytes]:
    return "maker/bomb.npz", zipped({f"{name}.npy": value for name, value in members.items()})


def _npy(array: Any) -> bytes:  # noqa: ANN401
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _large_names(generator: random.Random) -> tuple[str, bytes]:
    """Write class names that expand to 6 GB."""
    head = b"{'descr': '<U500000000', 'fortran_order': False, 'shape': (3,), }"
    head += b" " * (117 - len(head)) + b"\n"
    classes = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + bytes(10**7)
    return _npz(
        q=_npy(np.zeros((2, 2), np.uint8)), scale=_npy(np.float32(1)), code=_npy(np.array("sqrt")),
        y=_npy(np.zeros(2, int)), classes=classes,
    )  # fmt: skip


def _wide_table(generator: random.Random) -> tuple[str, bytes]:
    columns = 100_000
    return "c.csv", b"label," + b"x," * columns + b"y\n" + b"a," * (columns + 1) + b"b"


def _nested_line(generator: random.Random) -> tuple[str, bytes]:
    return "c.jsonl", b'{"label":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def _endless_sound(generator: random.Random) -> tuple[str, bytes]:
    """Write a header that claims two gigabytes of samples."""
    form = struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8)
    size = b"\xff\xff\xff\x7f"
    return "b.wav", b"RIFF" + size + b"WAVEfmt " + form + b"data" + size + bytes(1000)


BOMBS: dict[str, Callable[[random.Random], tuple[str, bytes]]] = {
    "png": lambda generator: ("b.png", _pixels("L", 8900, 8900, "PNG")),
    "png 1 bit": lambda generator: ("b.png", _pixels("1", 8900, 8900, "PNG")),
    "png alpha": lambda generator: ("b.png", _pixels("LA", 8900, 8900, "PNG")),
    "png 16 bit": lambda generator: ("b.png", _pixels("I;16", 8900, 8900, "PNG")),
    "png huge": lambda generator: ("b.png", _pixels("1", 40_000, 40_000, "PNG")),
    "png line": lambda generator: ("b.png", _pixels("L", 60_000, 2, "PNG")),
    "gif": lambda generator: ("b.gif", _pixels("P", 8900, 8900, "GIF")),
    "tif pages": _many_pages,
    "parquet rows": _many_rows,
    "excel rows": _wide_sheet,
    "npz names": _large_names,
    "csv columns": _wide_table,
    "csv cell": lambda generator: ("c.csv", b"x" * 200_000 + b",label\n1,a\n2,b"),
    "jsonl nested": _nested_line,
    "wav": _endless_sound,
}
"""Functions that return a file's name and content, by name."""
