"""The link that opens a studio: its token, and a local page that redirects to it."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from html import escape
from pathlib import Path

from unitail.web.access import MIN_TOKEN, TOKEN, new_token

PAGE = "open.html"


def load_or_make_token(file: Path) -> str:
    """Return the token stored in a file that only its owner can read; create it if needed.

    The token stays the same from one run to the next, so that open pages can reconnect.
    """
    with suppress(OSError, UnicodeDecodeError):
        token = file.read_text().strip()
        if _is_private(file) and len(token) >= MIN_TOKEN and TOKEN.fullmatch(token):
            return token
    token = new_token()
    with suppress(OSError):  # a token that cannot be stored still serves this run
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        _write_private(file, token)
    return token


@contextmanager
def redirect_page(folder: Path, link: str) -> Iterator[str]:
    """Write a page that redirects to a link and that only its owner can read; yield its address.

    A browser is started with an address on its command line, which every user of the machine can
    see, so a token must not be in it. The file is put into the studio's own folder if there is one,
    since some browsers cannot read temporary files. A studio that is killed leaves the file behind:
    the link should therefore carry a `Pass`, which opens that studio once and nothing afterwards.
    """
    with tempfile.TemporaryDirectory(prefix="unitail-") as temporary:
        page = (folder if folder.is_dir() else Path(temporary)) / PAGE
        try:
            page.unlink(missing_ok=True)
            _write_private(page, _page_source(link))
        except OSError:
            page = Path(temporary) / PAGE
            _write_private(page, _page_source(link))
        try:
            yield page.resolve().as_uri()
        finally:
            page.unlink(missing_ok=True)


def _page_source(link: str) -> str:
    target = escape(link)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>unitail studio</title>"
        f'<meta http-equiv=refresh content="0; url={target}"><a href="{target}">Open the studio</a>'
        "</html>"
    )


def _is_private(file: Path) -> bool:
    """Return whether only we can read a file; always true on Windows, which has no such modes."""
    status = file.stat()
    return os.name == "nt" or (status.st_uid == os.getuid() and not status.st_mode & 0o077)


def _write_private(file: Path, text: str) -> None:
    """Write a new file that no other user can read."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)
