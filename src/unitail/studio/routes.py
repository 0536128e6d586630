"""What the page asks of the server, and what it is answered."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from fastapi import Path as InPath
from pydantic import BaseModel, Field
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response, StreamingResponse

import unitail
from unitail.errors import InvalidInput
from unitail.studio import page_data
from unitail.studio.changes import ASIDE, Done, Snapshot, StoreAway
from unitail.studio.exports import ResultKind, zipped
from unitail.studio.studio import Studio
from unitail.web.replies import JsonReply
from unitail.wording import shown
from unitail.workflows.answers import DOUBTFUL, NOVEL
from unitail.workflows.sort_files import SortBy

MAX_ITEMS = 100_000
MAX_CONTENTS = 500
MAX_NEXT = 200
KINDS = {"html": ResultKind.REPORT, "classifier": ResultKind.CLASSIFIER}
DAY = 24 * 60 * 60
Place = Annotated[int, InPath(ge=0)]
Size = Literal["small", "large"]
Author = Annotated[str, Field(default="", max_length=64)]


class Labelling(BaseModel):
    """Some items are of a class: for each its place, and the version that was seen."""

    items: dict[int, int] = Field(min_length=1, max_length=MAX_ITEMS)
    class_id: int | None = None
    classes: dict[int, int] | None = None
    """In place of `class_id`: a class for each item."""
    author: Author
    looked_at: list[int] | None = Field(default=None, max_length=2000)
    """None if nothing is said about it."""

    def chosen(self, existing: Callable[[int], int]) -> dict[int, int | None]:
        """Return the class of each item."""
        each = self.classes or {}
        return {existing(place): each.get(place, self.class_id) for place in self.items}


class Naming(BaseModel):
    """A name for a class."""

    name: str = Field(max_length=1000)
    author: Author


class Merging(BaseModel):
    """The class that another becomes a part of."""

    into: int
    author: Author


class Doing(BaseModel):
    """Who does it."""

    author: Author


class Asking(BaseModel):
    """Places of items."""

    places: list[int] = Field(max_length=MAX_CONTENTS)


class SortRequest(BaseModel):
    """How files are sorted into class folders."""

    by: SortBy = SortBy.COPY


def state_routes(studio: Studio) -> APIRouter:
    """Tell how things are."""
    router = APIRouter(prefix="/api")

    @router.get("/state")
    def state() -> JsonReply:
        items = studio.catalogue.items
        known = studio.vectors.known()
        snapshot, trouble = _snapshot(studio)
        told = {
            "boot": studio.boot,
            "version": unitail.__version__,
            "name": studio.catalogue.source.resolve().name,
            "modality": str(items.modality),
            "names": items.names,
            "columns": studio.catalogue.columns,
            "limits": {"doubtful": DOUBTFUL, "novel": NOVEL, "aside": ASIDE},
            "notes": [*items.guesses, *items.ignored],
            "folders": {name: len(own) for name, own in studio.catalogue.folder_classes().items()},
            "sorted_folder": shown(studio.sorted_folder),
            "changes": page_data.changes(studio.catalogue, snapshot),
            "answers": page_data.answers(studio.answers.at(known)),
            "progress": studio.progress(),
            "estimate": page_data.estimated(studio.estimated),
            "trouble": trouble,
        }
        return JsonReply(told)

    @router.get("/events")
    def events() -> StreamingResponse:
        first = f'event: hello\ndata: "{studio.boot}"\n'
        return StreamingResponse(studio.hub.listen(first), media_type="text/event-stream")

    @router.get("/next")
    def next_items(count: int = 24) -> list[int]:
        return studio.next(min(max(count, 1), MAX_NEXT))

    @router.get("/search")
    def search(q: str) -> JsonReply:
        return JsonReply(studio.media.search(q[:1000]))

    return router


def item_routes(studio: Studio) -> APIRouter:
    """Show items."""
    router = APIRouter(prefix="/api")
    existing = studio.catalogue.require

    def headers(v: str) -> dict[str, str]:
        """Let browsers keep only what names this studio: others may follow at this address."""
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
    def contents(asked: Asking) -> JsonReply:
        told = {place: studio.media.content(existing(place)) for place in asked.places}
        return JsonReply(told)

    @router.post("/label")
    def label(body: Labelling) -> dict[str, Any]:
        classes = body.chosen(existing)
        done = studio.label(classes, body.items, author=body.author, looked_at=body.looked_at)
        return _told(done)

    return router


def class_routes(studio: Studio) -> APIRouter:
    """Change classes, and go back."""
    router = APIRouter(prefix="/api")

    @router.post("/classes")
    def add(body: Naming) -> dict[str, Any]:
        return _told(studio.do(lambda store: store.add_class(body.name, author=body.author)))

    @router.post("/classes/{class_id}/rename")
    def rename(class_id: int, body: Naming) -> dict[str, Any]:
        return _told(
            studio.do(lambda store: store.rename_class(class_id, body.name, author=body.author))
        )

    @router.post("/classes/{class_id}/merge")
    def merge(class_id: int, body: Merging) -> dict[str, Any]:
        return _told(
            studio.do(lambda store: store.merge_classes(class_id, body.into, author=body.author))
        )

    @router.post("/classes/{class_id}/delete")
    def delete(class_id: int, body: Doing) -> dict[str, Any]:
        return _told(studio.do(lambda store: store.delete_class(class_id, author=body.author)))

    @router.post("/folders")
    def folders(body: Doing) -> dict[str, Any]:
        return _told(studio.use_folders(body.author))

    @router.post("/undo")
    def undo(body: Doing) -> dict[str, Any]:
        return _told(studio.do(lambda store: store.undo(author=body.author)))

    @router.post("/redo")
    def redo(body: Doing) -> dict[str, Any]:
        return _told(studio.do(lambda store: store.redo(author=body.author)))

    return router


def export_routes(studio: Studio) -> APIRouter:
    """Hand out results."""
    router = APIRouter(prefix="/api/export")

    @router.get("/{kind}")
    def download(kind: Literal["csv", "json", "html", "classifier"]) -> FileResponse:
        what, stem = KINDS.get(kind, ResultKind.TABLE), studio.catalogue.source.resolve().stem
        name = f"{stem}-classifier" if what is ResultKind.CLASSIFIER else f"{stem}-answers.{kind}"
        results = studio.results()
        folder = tempfile.mkdtemp(prefix="unitail-")
        clean = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
        try:
            written = results.write(what, Path(folder) / name)
            if what is ResultKind.CLASSIFIER:
                written = zipped(written)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return FileResponse(written, filename=written.name, background=clean)

    @router.post("/folders")
    def folders(body: SortRequest) -> dict[str, Any]:
        if body.by is SortBy.MOVE:
            raise InvalidInput(
                "files are not moved from a page",
                got="move",
                allowed="copy, link",
                remedy="Copy or link them, or run `unitail studio export --sort-by move`.",
            )
        results = studio.results()
        done = results.sort_into(studio.sorted_folder, body.by)
        there = sum(step.is_there for step in done.steps)
        files, items = {step.source for step in done.steps}, studio.catalogue.items
        names = {name for name, item in zip(items.names, items.items, strict=True) if item in files}
        return {
            "folder": shown(studio.sorted_folder),
            "done": len(done.steps) - there,
            "there": there,
            "left_out": [each.name for each in results.answers.unreadable if each.name not in names]
            + [shown(step.source.name) for step in done.gone],
        }

    return router


def _snapshot(studio: Studio) -> tuple[Snapshot, str]:
    """Return all labels, and what is wrong; while the store is away, labels as they were last."""
    try:
        return studio.store.since(), studio.trouble
    except StoreAway as error:
        return studio.labels.snapshot(), studio.trouble or str(error)


def _told(done: Done) -> dict[str, Any]:
    return {
        "revision": done.revision,
        "title": done.title,
        "items": len(done.items),
        "class_id": done.class_id,
    }
