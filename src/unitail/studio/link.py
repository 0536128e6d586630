"""The link that opens a studio: its token, and a page that leads there."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from html import escape
from pathlib import Path

from unitail.web.access import MIN_TOKEN, TOKEN, new_token

PAGE = "open.html"


def own_token(file: Path) -> str:
    """Return the token in a file that its owner alone can read; it is made if it is not there.

    It stays the same from one studio to the next, so that pages that are open find back.
    """
    with suppress(OSError, UnicodeDecodeError):
        token = file.read_text().strip()
        if _is_private(file) and len(token) >= MIN_TOKEN and TOKEN.fullmatch(token):
            return token
    token = new_token()
    with suppress(OSError):  # it is then good for this time
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        _write_private(file, token)
    return token


@contextmanager
def leading_page(folder: Path, link: str) -> Iterator[str]:
    """Give the address of a file that leads to a link, and that its owner alone can read.

    A browser is started with an address on its command line, which everybody on a machine can see:
    a token must not be there. The file lies in the studio's own folder if it has one, since some
    browsers see no temporary files. A studio that is killed leaves it there: the link should have
    a `Pass`, which opens that studio once and nothing after it.
    """
    with tempfile.TemporaryDirectory(prefix="unitail-") as other:
        page = (folder if folder.is_dir() else Path(other)) / PAGE
        try:
            page.unlink(missing_ok=True)
            _write_private(page, _leading_to(link))
        except OSError:
            page = Path(other) / PAGE
            _write_private(page, _leading_to(link))
        try:
            yield page.resolve().as_uri()
        finally:
            page.unlink(missing_ok=True)


def _leading_to(link: str) -> str:
    where = escape(link)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>unitail studio</title>"
        f'<meta http-equiv=refresh content="0; url={where}"><a href="{where}">Open the studio</a>'
        "</html>"
    )


def _is_private(file: Path) -> bool:
    """Tell whether a file is ours alone, where the system knows such."""
    status = file.stat()
    return os.name == "nt" or (status.st_uid == os.getuid() and not status.st_mode & 0o077)


def _write_private(file: Path, text: str) -> None:
    """Write a new file that nobody else can read."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
        opened.write(text)
