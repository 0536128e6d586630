"""An audit: what strangers may try on a studio, each with its test."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.routing import Route

from helpers.asgi import HOST, ask
from helpers.studios import answered, open_studio, write_pictures
from unitail.studio.app import make_app
from unitail.studio.routes import class_routes, export_routes, item_routes, state_routes
from unitail.studio.studio import Studio
from unitail.web.access import Access

TOKEN = "a-token-of-24-characters"
JSON = {**HOST, "content-type": "application/json"}
OWN = {**JSON, "authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    folder = tmp_path_factory.mktemp("strangers") / "pictures"
    write_pictures(folder, 12)
    studio = answered(open_studio(folder))
    yield studio
    studio.stop()


@pytest.fixture(scope="module")
def app(studio: Studio) -> FastAPI:
    return make_app(studio, Access.at("127.0.0.1", token=TOKEN))


def test_nothing_is_told_or_done_without_the_token(app: FastAPI, studio: Studio) -> None:
    before = studio.store.revision()
    asked = [
        (method, route.path.format(place=0, class_id=1, kind="csv"))
        for routes in (state_routes, item_routes, class_routes, export_routes)
        for route in routes(studio).routes
        if isinstance(route, Route)
        for method in route.methods or ()
    ]
    assert {("GET", "/api/events"), ("POST", "/api/label")} <= set(asked)
    assert len(asked) > 15
    for method, path in [*asked, ("GET", "/"), ("GET", "/static/app.js"), ("GET", "/docs")]:
        for headers in (JSON, {**JSON, "authorization": "Bearer another-token-than-it-is"}):
            assert ask(app, method, path, headers, [b"{}"]).status == 401, path
        elsewhere = {**OWN, "host": "evil.example:8000"}  # a name that was rebound to this machine
        assert ask(app, method, path, elsewhere, [b"{}"]).status == 403, path
        foreign = {**OWN, "origin": "http://evil.example"}
        assert ask(app, method, path, foreign, [b"{}"]).status == 403, path
    assert studio.store.revision() == before


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (100_000 * b"[", 400),
        (b'{"items": ' + 50_000 * b'{"0":' + b"}", 400),
        (b'{"items": {"0": 1e999}}', 422),
        (b'{"items": {"0": 0}, "class_id": ' + 5000 * b"9" + b"}", 400),
        (b'{"items": {"-1": 0}, "class_id": 1}', 400),
        (b"\xff\xfe", 422),
        (5 * 2**20 * b" ", 413),
    ],
)
def test_bodies_that_mean_harm_are_refused(app: FastAPI, body: bytes, status: int) -> None:
    reply = ask(app, "POST", "/api/label", OWN, [body])
    assert reply.status == status
    assert len(reply.body) < 1000


def test_there_are_no_uploads(app: FastAPI) -> None:
    form = {**OWN, "content-type": "multipart/form-data; boundary=x"}
    assert ask(app, "POST", "/api/label", form, [b"--x--"]).status == 413


@pytest.mark.parametrize(
    "path",
    [
        "/static/../studio.py",
        "/static/%2e%2e/studio.py",
        "/static//etc/passwd",
        "/api/items/../../etc/passwd/image",
        "/api/items/%2e%2e%2fstudio.db/image",
        f"/api/items/{10**30}/image",
        "/api/items/-1/image",
        "/api/items/0/image?size=../large",
        "/api/export/..%2f..%2fetc%2fpasswd",
    ],
)
def test_no_path_leads_out(app: FastAPI, path: str) -> None:
    assert ask(app, "GET", path, OWN).status in (400, 404, 422)


def test_names_of_classes_make_folders_in_one_folder(app: FastAPI, studio: Studio) -> None:
    def told(path: str, content: dict[str, object]) -> Any:  # noqa: ANN401
        reply = ask(app, "POST", path, OWN, [json.dumps(content).encode()])
        assert reply.status == 200, reply.body
        return json.loads(reply.body)

    names = ["../../out", "/etc/out", "a/b\\c", "..", "con", "<img src=x onerror=alert(1)>"]
    ids = [told("/api/classes", {"name": name})["class_id"] for name in names]
    told("/api/label", {"items": dict.fromkeys(range(6), 0), "classes": dict(enumerate(ids))})
    parent = studio.sorted_folder.parent
    before = set(parent.rglob("*"))
    assert told("/api/export/folders", {"by": "copy"})["done"] == 12
    made = set(parent.rglob("*")) - before
    assert all(studio.sorted_folder in (path, *path.parents) for path in made)
    assert len([path for path in made if path.suffix == ".png"]) == 12
    assert not Path("/etc/out").exists()
    page = ask(app, "GET", "/api/export/html", OWN).body
    assert b"<img src=x onerror" not in page
