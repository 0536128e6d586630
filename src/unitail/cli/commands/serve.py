"""`unitail serve`: classifiers behind HTTP."""

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
        str, typer.Option(help="The address to bind; any but this machine's own needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 is any that is free.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(help="A file with the token that requests must bring; else UNITAIL_TOKEN."),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A name that the server is reached by.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A site whose pages may ask, as https://example.org."),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Refuse new examples and their removal.")
    ] = False,
    save_changes: Annotated[
        bool, typer.Option("--save-changes", help="Write changes to the folders they came from.")
    ] = False,
    max_body: Annotated[
        int, typer.Option(min=1, metavar="MIB", help="The most of a request with files.")
    ] = LIMITS.body_bytes // MIB,
    max_json: Annotated[
        int, typer.Option(min=1, metavar="MIB", help="The most of a request in JSON.")
    ] = LIMITS.json_bytes // MIB,
    max_items: Annotated[
        int, typer.Option(min=1, help="The most items of a request.")
    ] = LIMITS.items,
    max_pixels: Annotated[
        int, typer.Option(min=1, help="The most pixels of an image.")
    ] = LIMITS.pixels,
    max_seconds: Annotated[
        float,
        typer.Option(min=0.1, help="The longest for an answer; then: try again."),
    ] = LIMITS.answer_seconds,
    max_requests: Annotated[
        int, typer.Option(min=1, help="The most at a time; more are told to try again later.")
    ] = LIMITS.concurrency,
    device: options.Device = "auto",
) -> None:
    """Answer over HTTP: predict, add and remove examples, for one or several classifiers.

    The page at / describes every address. On this machine alone nothing is needed to ask; beyond
    it, each request brings the token: `Authorization: Bearer TOKEN`. Changes are kept in memory
    unless --save-changes. SIGTERM stops the server after all requests were answered.
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
