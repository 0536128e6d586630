import io
import json
import re
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from helpers.asgi import HOST, ask
from helpers.sounds import write_sounds
from helpers.studios import answered, get, open_studio, post, write_pictures
from unitail.studio.app import STATIC, make_app
from unitail.studio.studio import Studio
from unitail.web.access import Access

OTHER = "fedcba9876543210"
"""Id of another browser than `post` has."""


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    write_pictures(tmp_path / "pictures", 12)
    studio = answered(open_studio(tmp_path / "pictures"))
    yield studio
    studio.stop()


@pytest.fixture
def app(studio: Studio) -> FastAPI:
    return make_app(studio, Access.at("127.0.0.1"))


def test_the_page_and_all_its_files_are_there(app: FastAPI) -> None:
    page = ask(app, "GET", "/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for file in STATIC.iterdir():
        assert ask(app, "GET", f"/static/{file.name}").status == 200
    text = "".join(file.read_text() for file in STATIC.iterdir())
    assert "https://" not in text.replace("http://www.w3.org", "")
    assert "style=" not in (STATIC / "index.html").read_text()


def test_the_whole_loop(app: FastAPI, studio: Studio) -> None:
    red = post(app, "/api/classes", {"name": "red"})["class_id"]
    green = post(app, "/api/classes", {"name": "grün"})["class_id"]
    done = post(app, "/api/label", {"items": {"0": 0, "3": 0}, "class_id": red})
    assert (done["title"], done["items"]) == ("2 items: red", 2)
    post(app, "/api/label", {"items": {"1": 0, "2": 0}, "classes": {"1": green, "2": red}})
    studio.answerer.answer_all()
    state = get(app, "/api/state")
    assert state["modality"] == "image"
    assert state["names"][0] == "0000.png"
    assert [[row[0], row[1]] for row in state["changes"]["labels"]] == [
        [0, red],
        [1, green],
        [2, red],
        [3, red],
    ]
    best = dict(zip(state["answers"]["places"], state["answers"]["best"], strict=True))
    assert best[6] == red
    assert best[4] == green
    assert len(get(app, "/api/next?count=3")) == 3
    assert get(app, "/api/search?q=0007") == [7]
    assert get(app, "/api/items/4/why")[0]["class_id"] == green
    post(app, f"/api/classes/{green}/rename", {"name": "green"})
    post(app, f"/api/classes/{red}/merge", {"into": green})
    post(app, f"/api/classes/{green}/delete", {})
    for _ in range(3):
        post(app, "/api/undo", {})
    assert post(app, "/api/redo", {})["title"] == "Redone: grün is now green"
    assert ask(app, "GET", "/api/items/0/image").headers["content-type"] == "image/jpeg"


def test_numbers_beyond_all_bounds_stop_nothing(app: FastAPI, studio: Studio) -> None:
    red = post(app, "/api/classes", {"name": "red"})["class_id"]
    green = post(app, "/api/classes", {"name": "green"})["class_id"]
    huge = 10**30
    post(app, "/api/label", {"items": {"0": 0}, "class_id": red, "looked_at": [huge, 3, 12]})
    post(app, "/api/label", {"items": {"1": 0}, "class_id": green, "looked_at": [huge]})
    studio.answerer.answer_all()
    assert len(get(app, "/api/state")["answers"]["places"]) == 12
    for path, body in (
        (f"/api/classes/{red}/delete", {"seen_revision": huge}),
        (f"/api/classes/{red}/rename", {"name": "x", "seen": huge}),
        (f"/api/classes/{red}/merge", {"into": green, "into_seen": -1}),
        ("/api/label", {"items": {"2": 0}, "class_id": red, "looked_at": [-1]}),
    ):
        post(app, path, body, 422)
    assert post(app, f"/api/classes/{red}/delete", {"seen_revision": 2**31 - 1})["items"] == 1


def test_folders_are_classes_only_where_there_are_folders(app: FastAPI, studio: Studio) -> None:
    before = studio.store.revision()
    assert "the items are not in folders" in post(app, "/api/folders", {}, 400)["error"]
    assert studio.store.revision() == before


def test_a_conflict_tells_what_the_other_did(app: FastAPI) -> None:
    red = post(app, "/api/classes", {"name": "red"})["class_id"]
    version = post(app, "/api/label", {"items": {"0": 0}, "class_id": red})["revision"]
    told = post(app, "/api/label", {"items": {"0": 0, "1": 0}, "class_id": 0}, 409)
    assert told["conflicts"] == [[0, red, version]]
    assert told["error"].startswith("somebody else labelled some of these items")


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        (
            "/api/label",
            {"items": {}},
            422,
            "the request is invalid at items: got {}; allowed: Dictionary",
        ),
        ("/api/label", {"items": {"99": 0}}, 400, "there is no such item: got 99"),
        ("/api/label", {"items": {"0": 0}, "class_id": 77}, 400, "the class does not exist"),
        ("/api/classes", {"name": " "}, 400, "this cannot be the name of a class"),
        ("/api/undo", {}, 400, "there is nothing to undo"),
        ("/api/contents", {"places": [-1]}, 400, "there is no such item"),
        ("/api/export/folders", {"by": "move"}, 400, "the page cannot move files"),
        ("/api/export/folders", {}, 400, "there are too few labels to answer from"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    app: FastAPI, path: str, body: object, status: int, words: str
) -> None:
    assert post(app, path, body, status)["error"].startswith(words)


def test_unreadable_items_are_not_found(app: FastAPI, studio: Studio) -> None:
    path = studio.catalogue.file(0)
    assert path is not None
    path.unlink()
    assert ask(app, "GET", "/api/items/0/image").status == 404
    assert ask(app, "GET", "/api/items/-1/image").status == 422
    assert ask(app, "GET", "/static/../server.py").status == 404


def test_browsers_keep_only_what_names_this_studio(tmp_path: Path) -> None:
    write_sounds(tmp_path, count=1)
    studio = open_studio(tmp_path)
    app = make_app(studio, Access.at("127.0.0.1"))
    kept = {
        v: ask(app, "GET", f"/api/items/0/sound{v}").headers["cache-control"]
        for v in ("", "?v=another", f"?v={studio.boot}", f"?v={studio.boot}123")
    }
    assert [("max-age" in each) for each in kept.values()] == [False, False, True, True]
    studio.stop()


def test_other_sites_and_names_are_kept_out(app: FastAPI) -> None:
    assert ask(app, "GET", "/", {"host": "evil.example"}).status == 403
    other = {**HOST, "origin": "https://evil.example", "content-type": "application/json"}
    assert ask(app, "POST", "/api/undo", other, [b"{}"]).status == 403


def test_exports_are_downloads(app: FastAPI, studio: Studio) -> None:
    assert ask(app, "GET", "/api/export/csv").status == 400
    ids = [post(app, "/api/classes", {"name": name})["class_id"] for name in ("red", "green")]
    post(app, "/api/label", {"items": {"0": 0, "1": 0}, "classes": {"0": ids[0], "1": ids[1]}})
    table = ask(app, "GET", "/api/export/csv")
    assert table.headers["content-disposition"] == 'attachment; filename="pictures-answers.csv"'
    assert len(table.body.decode().splitlines()) == 13
    assert len(json.loads(ask(app, "GET", "/api/export/json").body)["answers"]) == 12
    assert b"Answers for pictures" in ask(app, "GET", "/api/export/html").body
    done = post(app, "/api/export/folders", {"by": "copy"})
    assert done == {
        "folder": str(studio.sorted_folder),
        "done": 12,
        "there": 0,
        "removed": 0,
        "left_out": [],
    }
    assert (studio.sorted_folder / "red" / "0000.png").exists()
    (studio.catalogue.source / "0005.png").unlink()
    done = post(app, "/api/export/folders", {"by": "copy"})
    assert (done["done"], done["there"], done["left_out"]) == (0, 11, ["0005.png"])


def test_an_export_that_fails_leaves_nothing_behind(
    app: FastAPI, studio: Studio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def write(self, *_: object, **__: object) -> Path:
            raise MemoryError

    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(studio, "results", Broken)
    with pytest.raises(MemoryError):
        ask(app, "GET", "/api/export/csv")
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_classifier_is_zipped(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("x,y,label\n0,0,a\n9,9,b\n1,0,\n8,9,\n")
    studio = answered(open_studio(table))
    reply = ask(make_app(studio, Access.at("127.0.0.1")), "GET", "/api/export/classifier")
    names = zipfile.ZipFile(io.BytesIO(reply.body)).namelist()
    assert "t-classifier/README.md" in names
    studio.stop()


def test_news_begin_with_the_boot(app: FastAPI, studio: Studio) -> None:
    studio.hub.close()  # so that the stream ends
    reply = ask(app, "GET", "/api/events")
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert f'event: hello\ndata: "{studio.boot}"' in reply.body.decode()


def test_a_class_that_changed_since_it_was_shown_is_not_changed(app: FastAPI) -> None:
    shown = post(app, "/api/classes", {"name": "red"})
    red, seen = shown["class_id"], {"seen": shown["revision"], "seen_revision": shown["revision"]}
    path = f"/api/classes/{red}"
    post(app, f"{path}/rename", {"name": "ruby", **seen})
    for action, more in (("rename", {"name": "rose"}), ("delete", {}), ("merge", {"into": red})):
        if action == "merge":
            more = {"into": post(app, "/api/classes", {"name": "green"})["class_id"]}
        told = post(app, f"{path}/{action}", {**more, **seen}, 409, browser=OTHER)
        assert told["error"].startswith("somebody else changed this class meanwhile: got ruby")
        assert [each["name"] for each in told["classes"]] == ["ruby"]
    [row] = [each for each in get(app, "/api/state")["changes"]["classes"] if each["id"] == red]
    post(app, "/api/label", {"items": {"0": 0}, "class_id": red})
    seen = {"seen": row["version"], "seen_revision": row["version"]}
    told = post(app, f"{path}/delete", seen, 409, browser=OTHER)
    assert told["error"].startswith("somebody else labelled items as ruby meanwhile")
    assert [place for place, *_ in told["conflicts"]] == [0]
    seen = {"seen": row["version"], "seen_revision": get(app, "/api/state")["changes"]["revision"]}
    post(app, f"{path}/delete", seen, browser=OTHER)


def test_a_browser_undoes_its_own_actions_after_a_restart_on_another_port(
    app: FastAPI, studio: Studio, tmp_path: Path
) -> None:
    cookie = ask(app, "GET", "/").headers["set-cookie"]
    assert {"HttpOnly", "Path=/", "SameSite=lax"} <= set(cookie.split("; "))
    assert "Max-Age=31536000" in cookie
    own = {"cookie": cookie.split("; ")[0], "content-type": "application/json"}
    again = ask(app, "GET", "/", {**HOST, **own})
    assert again.headers["set-cookie"] == cookie  # kept for another year
    assert ask(app, "GET", "/").headers["set-cookie"] != cookie  # that of another browser
    made = ask(app, "POST", "/api/classes", {**HOST, **own}, [b'{"name": "a"}'])
    assert made.status == 200
    studio.stop()
    restarted = open_studio(studio.catalogue.source)
    app = make_app(restarted, Access.at("127.0.0.1"))
    told = post(app, "/api/undo", {}, 400, browser=OTHER)
    assert told["error"].startswith(
        "there is nothing to undo: got nothing changed from this browser that could be undone;"
    )
    headers = {"host": "127.0.0.1:8766", **own}
    undone = ask(app, "POST", "/api/undo", headers, [b"{}"])
    assert json.loads(undone.body)["title"] == "Undone: New class a"
    restarted.stop()


@pytest.mark.parametrize("browser", ["", "ann", "x" * 65, 15 * "0", 16 * "A", "g" * 16, "%00"])
def test_an_id_that_no_page_was_given_is_none(browser: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y,label\n0,0,a\n9,9,b\n1,0,\n8,9,\n")
    studio = open_studio(tmp_path / "t.csv")
    app = make_app(studio, Access.at("127.0.0.1"))
    reply = ask(app, "GET", "/", {**HOST, "cookie": f"unitail_author={browser}"})
    assert reply.status == 200
    assert re.match("unitail_author=[0-9a-f]{16};", reply.headers["set-cookie"])
    post(app, "/api/classes", {"name": "c"}, browser=browser)
    before = studio.store.since()
    for path in ("/api/undo", "/api/redo"):
        told = post(app, path, {}, 400, browser=browser)
        assert told["error"].startswith("it is not known what this browser did: got a request wit")
    assert studio.store.since() == before  # also what the table brought
    studio.stop()
