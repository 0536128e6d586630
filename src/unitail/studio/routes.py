"""The HTTP routes that the page uses."""

import re
import secrets
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Cookie, Query
from fastapi import Path as InPath
from pydantic import AfterValidator, BaseModel, Field
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response, StreamingResponse

import unitail
from unitail.answer_defaults import DOUBTFUL, NOVEL
from unitail.errors import InvalidInput
from unitail.studio import page_data
from unitail.studio.exports import ResultKind, zip_folder
from unitail.studio.store import SeenClass, Store
from unitail.studio.stored_rows import ASIDE, ActionResult, Origin, Snapshot, StoreUnavailable
from unitail.studio.studio import Studio
from unitail.web.replies import JsonReply
from unitail.wording import shown
from unitail.workflows.sort_files import SortBy

MAX_ITEMS = 100_000
MAX_CONTENTS = 500
MAX_NEXT = 200
KINDS = {"html": ResultKind.REPORT, "classifier": ResultKind.CLASSIFIER}
DAY = 24 * 60 * 60
Place = Annotated[int, InPath(ge=0)]
PlaceList = Annotated[str, Query(max_length=20_000, pattern=r"^[0-9 ]*$")]
"""Places, separated by spaces."""
Size = Literal["small", "large"]
Version = Annotated[int, Field(ge=0, lt=2**31)]
"""A revision that a page has seen; databases take no larger one."""
AUTHOR = "unitail_author"
"""Cookie with the id of the browser, whose own actions undo takes back."""


def new_browser() -> str:
    """Return an id for a browser."""
    return secrets.token_hex(8)


def _known_browser(cookie: str) -> str:
    """Return the id in a cookie; empty if it is none that `new_browser` makes."""
    return cookie if re.fullmatch(r"[0-9a-f]{16}", cookie) else ""


Browser = Annotated[str, Cookie(alias=AUTHOR), AfterValidator(_known_browser)]
"""Id of the browser, empty without one. It need not be secret: it tells browsers apart, and the
token guards all actions.

Cookies ignore the port, so a browser keeps its id when the studio restarts on another one.
"""


class LabelRequest(BaseModel):
    """Label items: `items` maps the place of each to the version of its label that was seen."""

    items: dict[int, int] = Field(min_length=1, max_length=MAX_ITEMS)
    class_id: int | None = None
    classes: dict[int, int] | None = None
    """A class for each item, instead of one `class_id` for all."""
    looked_at: list[Annotated[int, Field(ge=0)]] | None = Field(default=None, max_length=2000)
    """Places of the items on the screen; None if unknown."""
    origin: Origin = Origin.CHOSEN

    def class_ids(self, existing: Callable[[int], int]) -> dict[int, int | None]:
        """Return the class of each item by its place; `existing` checks the places."""
        classes = self.classes or {}
        return {existing(place): classes.get(place, self.class_id) for place in self.items}


class NameRequest(BaseModel):
    """Name a new class."""

    name: str = Field(max_length=1000)


class ClassRequest(BaseModel):
    """Change an existing class, if it is still as the page showed it."""

    seen: Version | None = None
    """Version of the class that the page showed; None if unknown."""
    seen_revision: Version | None = None
    """Revision of all labels that the page showed; None if unknown."""

    def seen_class(self) -> SeenClass:
        """Return what the page showed of the class."""
        return SeenClass(self.seen, self.seen_revision)


class RenameRequest(ClassRequest):
    """Rename a class."""

    name: str = Field(max_length=1000)


class MergeRequest(ClassRequest):
    """Merge a class into another one, `into`."""

    into: int
    into_seen: Version | None = None
    """Version of that class that the page showed; None if unknown."""


class ContentsRequest(BaseModel):
    """Get the contents of the items at some places."""

    places: list[int] = Field(max_length=MAX_CONTENTS)


class SortRequest(BaseModel):
    """Sort files into class folders."""

    by: SortBy = SortBy.COPY


def state_routes(studio: Studio) -> APIRouter:
    """Return the routes for the state of the studio, its events, suggestions and search."""
    router = APIRouter(prefix="/api")

    @router.get("/state")
    def state() -> JsonReply:
        items = studio.catalogue.items
        encoded = studio.vectors.encoded_places()
        snapshot, trouble = _snapshot(studio)
        content = {
            "boot": studio.boot,
            "version": unitail.__version__,
            "name": studio.catalogue.source.resolve().name,
            "modality": str(items.modality),
            "names": items.names,
            "columns": studio.catalogue.columns,
            "limits": {"doubtful": DOUBTFUL, "novel": NOVEL, "aside": ASIDE},
            "notes": [*studio.notes, *items.guesses, *items.ignored],
            "folders": {
                name: len(files) for name, files in studio.catalogue.folder_classes().items()
            },
            "sorted_folder": shown(studio.sorted_folder),
            "changes": page_data.changes(studio.catalogue, snapshot),
            "answers": page_data.answers(studio.answers.at(encoded)),
            "progress": studio.progress(),
            "estimate": page_data.estimated(studio.estimated),
            "trouble": trouble,
        }
        return JsonReply(content)

    @router.get("/events")
    def events() -> StreamingResponse:
        first = f'event: hello\ndata: "{studio.boot}"\n'
        return StreamingResponse(studio.hub.listen(first), media_type="text/event-stream")

    @router.get("/next")
    def next_items(count: int = 24, skip: PlaceList = "") -> list[int]:
        return studio.next(min(max(count, 1), MAX_NEXT), [int(each) for each in skip.split()])

    @router.get("/search")
    def search(q: str) -> JsonReply:
        return JsonReply(studio.media.search(q[:1000]))

    return router


def item_routes(studio: Studio) -> APIRouter:
    """Return the routes that show, explain and label items."""
    router = APIRouter(prefix="/api")
    existing = studio.catalogue.require

    def headers(v: str) -> dict[str, str]:
        """Let browsers cache only URLs that name this run: another studio may reuse the address."""
        return {"Cache-Control": f"private, max-age={DAY}"} if v.startswith(studio.boot) else {}

    @router.get("/items/{place}/image")
    def image(place: Place, size: Size = "small", v: str = "") -> Response:
        content = studio.media.image(existing(place), size)
        return Response(content, media_type="image/jpeg", headers=headers(v))

    @router.get("/items/{place}/sound")
    def sound(place: Place, v: str = "") -> FileResponse:
        path, kind = studio.media.sound(existing(place))
        return FileResponse(path, media_type=kind, headers=headers(v))

    @router.get("/items/{place}/content")
    def content(place: Place) -> Any:  # noqa: ANN401
        return studio.media.content(existing(place), "large")

    @router.get("/items/{place}/why")
    def why(place: Place) -> list[dict[str, Any]]:
        shares = studio.answerer.shares(existing(place))
        return page_data.deciding(place, studio.labels, studio.vectors, shares)

    @router.post("/contents")
    def contents(body: ContentsRequest) -> JsonReply:
        return JsonReply({place: studio.media.content(existing(place)) for place in body.places})

    @router.post("/label")
    def label(body: LabelRequest, browser: Browser = "") -> dict[str, Any]:
        class_ids = body.class_ids(existing)
        result = studio.label(
            class_ids,
            body.items,
            author=browser,
            looked_at=body.looked_at,
            origin=body.origin,
        )
        return _action_reply(result)

    return router


def class_routes(studio: Studio) -> APIRouter:
    """Return the routes that change classes."""
    router = APIRouter(prefix="/api")

    @router.post("/classes")
    def add(body: NameRequest, browser: Browser = "") -> dict[str, Any]:
        return _action_reply(studio.apply(lambda store: store.add_class(body.name, author=browser)))

    @router.post("/classes/{class_id}/rename")
    def rename(class_id: int, body: RenameRequest, browser: Browser = "") -> dict[str, Any]:
        def action(store: Store) -> ActionResult:
            return store.rename_class(class_id, body.name, author=browser, seen=body.seen_class())

        return _action_reply(studio.apply(action))

    @router.post("/classes/{class_id}/merge")
    def merge(class_id: int, body: MergeRequest, browser: Browser = "") -> dict[str, Any]:
        def action(store: Store) -> ActionResult:
            into_seen = SeenClass(body.into_seen)
            return store.merge_classes(
                class_id,
                body.into,
                author=browser,
                seen=body.seen_class(),
                into_seen=into_seen,
            )

        return _action_reply(studio.apply(action))

    @router.post("/classes/{class_id}/delete")
    def delete(class_id: int, body: ClassRequest, browser: Browser = "") -> dict[str, Any]:
        return _action_reply(
            studio.apply(
                lambda store: store.delete_class(class_id, author=browser, seen=body.seen_class())
            )
        )

    @router.post("/folders")
    def folders(browser: Browser = "") -> dict[str, Any]:
        return _action_reply(studio.use_folders(browser))

    return router


def history_routes(studio: Studio) -> APIRouter:
    """Return the routes for undo and redo."""
    router = APIRouter(prefix="/api")

    @router.post("/undo")
    def undo(browser: Browser = "") -> dict[str, Any]:
        return _action_reply(studio.apply(lambda store: store.undo(author=_author(browser))))

    @router.post("/redo")
    def redo(browser: Browser = "") -> dict[str, Any]:
        return _action_reply(studio.apply(lambda store: store.redo(author=_author(browser))))

    return router


def export_routes(studio: Studio) -> APIRouter:
    """Return the routes that export results."""
    router = APIRouter(prefix="/api/export")

    @router.get("/{kind}")
    def download(kind: Literal["csv", "json", "html", "classifier"]) -> FileResponse:
        result_kind = KINDS.get(kind, ResultKind.TABLE)
        is_classifier = result_kind is ResultKind.CLASSIFIER
        stem = studio.catalogue.source.resolve().stem
        name = f"{stem}-classifier" if is_classifier else f"{stem}-answers.{kind}"
        results = studio.results()
        folder = tempfile.mkdtemp(prefix="unitail-")
        cleanup = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
        try:
            file = results.write(result_kind, Path(folder) / name, has_links=False)
            if is_classifier:
                file = zip_folder(file)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return FileResponse(file, filename=file.name, background=cleanup)

    @router.post("/folders")
    def folders(body: SortRequest) -> dict[str, Any]:
        if body.by is SortBy.MOVE:
            raise InvalidInput(
                "the page cannot move files",
                got="move",
                allowed="copy, link",
                remedy="Copy or link them, or run `unitail studio export --sort-by move`.",
            )
        results = studio.results()
        sorting = results.sort_into(studio.sorted_folder, body.by)
        there = sum(step.is_there for step in sorting.steps)
        files, items = {step.source for step in sorting.steps}, studio.catalogue.items
        names = {name for name, item in zip(items.names, items.items, strict=True) if item in files}
        return {
            "folder": shown(studio.sorted_folder),
            "done": len(sorting.steps) - there,
            "there": there,
            "removed": len(sorting.removed),
            "left_out": [each.name for each in results.answers.unreadable if each.name not in names]
            + [shown(step.source.name) for step in sorting.gone],
        }

    return router


def _snapshot(studio: Studio) -> tuple[Snapshot, str]:
    """Return all labels and the trouble, if any; if the store is unavailable, the last labels."""
    try:
        return studio.store.since(), studio.trouble
    except StoreUnavailable as error:
        return studio.labels.snapshot(), studio.trouble or str(error)


def _author(browser: str) -> str:
    """Return the author whose actions may be undone: without an id, they could be anybody's."""
    if not browser:
        raise InvalidInput(
            "it is not known what this browser did",
            got="a request without the cookie of the page",
            allowed="requests of browsers that accept cookies",
            remedy="Reload the page.",
        )
    return browser


def _action_reply(result: ActionResult) -> dict[str, Any]:
    return {
        "revision": result.revision,
        "title": result.title,
        "items": len(result.items),
        "class_id": result.class_id,
    }
