"""`unitail serve`: serve classifiers over HTTP."""

from pathlib import Path
from typing import Annotated

import typer

from unitail.cli.commands import options
from unitail.service.limits import ServiceLimits

LIMITS = ServiceLimits()
MIB = 2**20


def serve(
    models: options.Models,
    host: Annotated[
        str,
        typer.Option(
            help="Address to bind. Any address other than this machine's loopback needs a token."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the token that requests must send. Default: the environment variable "
            "UNITAIL_TOKEN."
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Host name under which clients may reach the server. Repeatable.",
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="Origin whose web pages may send requests, such as https://example.org (CORS). "
            "Repeatable.",
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Refuse to add and to remove examples.")
    ] = False,
    save_changes: Annotated[
        bool, typer.Option("--save-changes", help="Save changes to the classifiers' folders.")
    ] = False,
    max_body: Annotated[
        int, typer.Option(min=1, metavar="MIB", help="Largest request with files, in MiB.")
    ] = LIMITS.body_bytes // MIB,
    max_json: Annotated[
        int, typer.Option(min=1, metavar="MIB", help="Largest JSON request, in MiB.")
    ] = LIMITS.json_bytes // MIB,
    max_items: Annotated[
        int, typer.Option(min=1, help="Largest number of items in a request.")
    ] = LIMITS.items,
    max_pixels: Annotated[
        int, typer.Option(min=1, help="Largest number of pixels in an image.")
    ] = LIMITS.pixels,
    max_seconds: Annotated[
        float,
        typer.Option(
            min=0.1,
            help="Longest time to answer a request; after it, the client is asked to try again.",
        ),
    ] = LIMITS.answer_seconds,
    max_requests: Annotated[
        int,
        typer.Option(
            min=1,
            help="Largest number of requests in progress; clients beyond it are asked to try "
            "again.",
        ),
    ] = LIMITS.concurrency,
    device: options.Device = "auto",
) -> None:
    """Serve one or more classifiers over HTTP: predict, add examples, remove examples.

    The page at / documents every route. Requests from this machine need no
    token unless one is set; if the server listens on another address, every
    request must send the header `Authorization: Bearer TOKEN`.

    Changes are kept in memory only, unless --save-changes is given. On SIGTERM
    the server answers the requests in progress and stops.
    """
    from unitail.cli.serve import run

    run(
        models,
        host=host,
        port=port,
        token_file=token_file,
        names=allow_host or [],
        origins=allow_origin or [],
        read_only=read_only,
        save_changes=save_changes,
        limits={
            "body_bytes": max_body * MIB,
            "json_bytes": max_json * MIB,
            "items": max_items,
            "pixels": max_pixels,
            "answer_seconds": max_seconds,
            "concurrency": max_requests,
        },
        device=device,
    )
