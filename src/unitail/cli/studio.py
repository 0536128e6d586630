"""Run `unitail studio` and `unitail studio export`."""

import errno
import socket
import webbrowser
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from unitail.cli.console import bar, print_lines, read_options, report_unreadable
from unitail.encoders.cache import default_cache
from unitail.errors import InvalidConfig, InvalidInput, choice, optional
from unitail.web.access import Access, Pass, is_local, new_token
from unitail.wording import numbered, shown, some
from unitail.workflows.answer_files import SUFFIXES, check_target
from unitail.workflows.html_report.page import PAGES
from unitail.workflows.sort_files import SortBy, Step, check_sorting

if TYPE_CHECKING:
    from unitail.studio.catalogue import Catalogue
    from unitail.studio.studio import Studio

FIRST_PORT, PORTS = 8765, 100
TOKEN = "studio-token"
"""Name of the file that stores the user's token, in the cache folder."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where and how the page is served."""

    host: str
    port: int
    token: str | None
    browser: bool


@dataclass(frozen=True)
class Targets:
    """Outputs of an export."""

    out: Sequence[Path]
    sort_into: Path | None
    sort_by: str
    save: Path | None

    def check(self, source: Path) -> None:
        """Raise an error if an output cannot be written, before any work is done."""
        if not (self.out or self.sort_into or self.save):
            raise InvalidInput(
                "there is nothing to write",
                got="neither --out nor --sort-into nor --save",
                allowed="one of them or more",
                remedy="Name an output, such as --out answers.csv.",
            )
        choice(SortBy, self.sort_by, "--sort-by")
        for path in self.out:
            check_target(path, *SUFFIXES, *PAGES)
        if self.sort_into is not None:
            check_sorting(self.sort_into, [source])


def serve(
    source: Path,
    project: str | None,
    place: Place,
    **how: Any,  # noqa: ANN401 - as `_open` takes it
) -> None:
    """Serve the page until Ctrl-C."""
    optional("uvicorn", extra="studio")
    optional("fastapi", extra="studio")
    from unitail.studio.login_link import load_or_make_token, redirect_page

    local = is_local(place.host)
    token = place.token or (
        load_or_make_token(default_cache().folder / TOKEN) if local else new_token()
    )
    opening = Pass()
    access = Access.at(place.host, token=token, pass_=opening)
    console = Console()
    with _bound(place.host, place.port) as listener:
        print_lines(console, f"Opening {shown(source.resolve().name)} ...")
        studio = _open(console, source, project, **how)
        from unitail.studio.app import make_app
        from unitail.studio.schema import studio_folder
        from unitail.studio.server import make_server

        _print_items(console, studio.catalogue)
        link = f"{_url(listener, place.host)}?token="
        console.print(
            "The studio is at", link + token, markup=False, highlight=False, soft_wrap=True
        )
        print_lines(console, "Press Ctrl-C to stop.")
        server = make_server(make_app(studio, access))
        with redirect_page(studio_folder(source), link + opening.text) as page:
            if place.browser and local:
                webbrowser.open(page)
            with suppress(KeyboardInterrupt):  # every label is saved already
                server.run(sockets=[listener])
        print_lines(console, "All labels are saved.")


def write(
    source: Path,
    project: str | None,
    targets: Targets,
    **how: Any,  # noqa: ANN401 - as `_open` takes it
) -> None:
    """Write the labels and answers of a studio to the targets."""
    targets.check(source)
    console = Console()
    studio = _open(console, source, project, **how)
    _print_items(console, studio.catalogue)
    from unitail.inputs.encode import Among
    from unitail.studio.exports import ResultKind

    with bar("encoding", len(studio.catalogue)) as on_progress:
        vectors = studio.vectors
        vectors.encode_all(
            on_more=lambda: on_progress(vectors.progress.done, len(studio.catalogue))
        )
    if vectors.progress.trouble:
        raise InvalidInput(
            "the items could not be encoded", got=vectors.progress.trouble, allowed="an encoder"
        )
    results = studio.results()
    for path in targets.out:
        kind = ResultKind.REPORT if path.suffix.lower() in PAGES else ResultKind.TABLE
        results.write(kind, path)
        print_lines(console, f"All answers are in {path}.")
    if targets.save is not None:
        results.write(ResultKind.CLASSIFIER, targets.save)
        print_lines(console, f"The classifier is in {targets.save}.")
    vanished: tuple[Step, ...] = ()
    if targets.sort_into is not None:
        done = results.sort_into(targets.sort_into, SortBy(targets.sort_by))
        vanished = done.gone
        count = numbered(len(done.steps), "file")
        print_lines(console, f"{count} sorted into {shown(targets.sort_into)}.")
    studio.store.close()
    missing = [item for item in results.answers.unreadable if item.among is Among.LABELS]
    if missing:
        names = f": {some(item.name for item in missing)}" if source.is_dir() else ""
        count = numbered(len(missing), "label")
        typer.echo(f"unitail: {count} of items that no longer exist{names}.", err=True)
    report_unreadable(
        [
            f"{item.name}: {item.reason}"
            for item in results.answers.unreadable
            if item not in missing
        ]
        + [f"{shown(step.source)}: has vanished, and was not sorted" for step in vanished],
        all_in="--out FILE.json lists all",
    )


def _open(
    console: Console,
    source: Path,
    project: str | None,
    *,
    options: Mapping[str, Any],
    use_cache: bool,
    device: str,
) -> "Studio":
    """Read the items and open the database of their labels; options apply to later calls, too."""
    optional("sqlalchemy", extra="studio")
    from unitail.studio.project import open_project
    from unitail.studio.settings import ProjectSettings
    from unitail.studio.studio import Studio

    kinds = read_options("", options["content_column"], options["modality"], options["columns"])
    given = ProjectSettings(**{**options, "columns": kinds.columns or None})
    opened = open_project(source, project, given)
    try:
        studio = Studio(
            opened.catalogue,
            opened.store,
            encoder=opened.settings.encoder,
            cache=default_cache() if use_cache else None,
            device=device,
            notes=opened.notes,
            takes_table_labels=opened.takes_table_labels,
        )
    except BaseException:
        opened.store.close()
        raise
    print_lines(console, *(f"Note: {note}." for note in studio.notes))
    return studio


def _print_items(console: Console, catalogue: "Catalogue") -> None:
    items = catalogue.items
    print_lines(console, f"{items.modality}: {numbered(len(items), 'item')}.")
    print_lines(console, *(f"Note: {note}." for note in items.guesses))
    print_lines(console, *(f"Skipped: {note}." for note in items.ignored))


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket bound to the port, or to the first free one."""
    ports = [port] if port else range(FIRST_PORT, FIRST_PORT + PORTS)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    reason = "none is free"
    for number in ports:
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, number))
            listener.listen()  # now, so that the page can be opened and no other takes the port
        except OSError as error:
            listener.close()
            reason = error.strerror or str(error)
            if error.errno != errno.EADDRINUSE:
                break
        else:
            return listener
    raise InvalidConfig(
        "the page cannot be served",
        got=f"{host} port {port or f'{FIRST_PORT} and after'}: {reason}",
        allowed="an address of this machine and a free port",
        remedy="Name another --port or --host.",
    )


def _url(listener: socket.socket, host: str) -> str:
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()  # the name by which other machines may know this one
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}/"
