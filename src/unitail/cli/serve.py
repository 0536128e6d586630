"""Run `unitail serve`."""

import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from unitail.cli.console import print_lines
from unitail.errors import InvalidConfig, InvalidInput, optional
from unitail.web.access import Access
from unitail.wording import shown

TOKEN = "UNITAIL_TOKEN"
"""Environment variable that holds the token."""


def run(
    models: Sequence[str],
    *,
    host: str,
    port: int,
    token_file: Path | None,
    names: Sequence[str],
    origins: Sequence[str],
    read_only: bool,
    save_changes: bool,
    limits: dict[str, Any],
    device: str,
) -> None:
    """Load the classifiers and serve them until a signal stops the server."""
    for package in ("fastapi", "uvicorn", "python_multipart", "prometheus_client"):
        optional(package, extra="serve")
    from unitail.service.app import make_app
    from unitail.service.classifiers import load_classifiers
    from unitail.service.limits import ServiceLimits
    from unitail.service.server import make_server
    from unitail.service.service import Service

    access = Access.at(host, token=read_token(token_file), names=names, origins=origins)
    console = Console()
    with listening(host, port) as listener:
        with _ended_by_sigterm():
            classifiers = load_classifiers(
                models,
                device=device,
                save_changes=save_changes,
                on_line=lambda line: print_lines(console, line),
            )
        service = Service(classifiers, ServiceLimits(**limits), read_only=read_only)
        server = make_server(make_app(service, access), host, port)
        address = f"[{host}]" if ":" in host else host
        print_lines(console, f"Listening at http://{address}:{listener.getsockname()[1]}")
        server.run(sockets=[listener])


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """End the process upon SIGTERM, which the first process of a container would ignore."""

    def leave(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    previous = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def read_token(file: Path | None) -> str | None:
    """Return the token from a file, or from the environment if no file is given."""
    if file is None:
        return os.environ.get(TOKEN) or None
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"the token cannot be read from {shown(file)}",
            got=str(error),
            allowed="a text file",
            remedy=f"Name another file, or set {TOKEN}.",
        ) from error


def listening(host: str, port: int) -> socket.socket:
    """Return a listening socket; opened first, so a busy port is an error before anything loads."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise InvalidConfig(
            f"the server cannot listen on {host}:{port}",
            got=error.strerror or str(error),
            allowed="an address of this machine, and a free port",
            remedy="Choose another --port; 0 picks a free one.",
        ) from error
    # Header and body of a response are two packets; the second would be delayed by 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
