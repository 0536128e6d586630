"""Run `unitail serve`."""

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from unitail.cli.console import say
from unitail.errors import InvalidConfig, InvalidInput, optional
from unitail.web.access import Access
from unitail.wording import shown

TOKEN = "UNITAIL_TOKEN"
"""The environment variable of the token."""


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
    """Load, listen, and answer until a signal comes."""
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
        classifiers = load_classifiers(
            models,
            device=device,
            save_changes=save_changes,
            tell=lambda line: say(console, line),
        )
        service = Service(classifiers, ServiceLimits(**limits), read_only=read_only)
        server = make_server(make_app(service, access), host, port)
        address = f"[{host}]" if ":" in host else host
        say(console, f"Listening at http://{address}:{listener.getsockname()[1]}")
        server.run(sockets=[listener])


def read_token(file: Path | None) -> str | None:
    """Return the token of a file, or that of the environment."""
    if file is None:
        return os.environ.get(TOKEN) or None
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"the token cannot be read from {shown(file)}",
            got=str(error),
            allowed="a file of text",
            remedy=f"Name another file, or set {TOKEN}.",
        ) from error


def listening(host: str, port: int) -> socket.socket:
    """Take the address first: a port that is taken is told before anything is loaded."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise InvalidConfig(
            f"{host}:{port} cannot be listened at",
            got=error.strerror or str(error),
            allowed="an address of this machine, and a free port",
            remedy="Choose another --port; 0 is any that is free.",
        ) from error
    # Head and body of an answer are two packets, the second of which would wait 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
