"""Ask a service that `unitail serve` runs. It needs nothing but Python's own library.

from unitail.client import Client

client = Client("http://127.0.0.1:8000")
client.predict("flowers", files=["rose.jpg"])["answers"][0]["label"]
"""

import json
import selectors
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

from unitail.errors import InvalidConfig, UnitailError

QUESTIONS = ("/predict", "/predict/files")
"""What addresses end with that may be asked twice."""


class Refused(UnitailError):
    """The service refused a request, or could not be reached."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(f"{sentence} (status {status})" if status else sentence)
        self.status = status
        """Of HTTP; 0 if there was no answer."""


class Client:
    """A service at an address; threads may share it, each has a connection of its own.

    Items are given as one of `vectors` (a list of lists of numbers, or an array), `texts`, `rows`
    (mappings from columns to values), and `files` (paths, or the bytes of files).

    Parameters
    ----------
    url : str, default="http://127.0.0.1:8000"
        Where the service listens.
    token : str, default=None
        What it was started with, if so.
    timeout : float, default=60
        Seconds to wait for an answer.
    retries : int, default=3
        How often to try again, when the service says that it has too much to do.

    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        *,
        token: str | None = None,
        timeout: float = 60.0,
        retries: int = 3,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidConfig(
                "the address of a service is a URL",
                got=repr(url),
                allowed="http://HOST:PORT, or https://HOST",
            )
        self._https = parts.scheme == "https"
        self._host, self._port, self._base = parts.hostname, parts.port, parts.path.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._timeout, self._retries = timeout, retries
        self._lock = threading.Lock()
        self._connections: dict[threading.Thread, HTTPConnection] = {}

    def close(self) -> None:
        """Close the connections; the client may be used on."""
        with self._lock:
            for connection in self._connections.values():
                connection.close()
            self._connections.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def classifiers(self) -> list[dict[str, Any]]:
        """List the classifiers: name, version, what they take, classes."""
        listed: list[dict[str, Any]] = self._ask("GET", "")
        return listed

    def describe(self, name: str) -> dict[str, Any]:
        """Say what there is to know of a classifier."""
        return self._asked("GET", _path(name))

    def ready(self) -> bool:
        """Tell whether the service answers questions."""
        try:
            return self._send("GET", "/ready", None, {})[0] == 200
        except Refused:
            return False

    def predict(
        self,
        name: str,
        *,
        vectors: Any = None,  # noqa: ANN401 - lists or an array
        texts: Sequence[str] | None = None,
        rows: Sequence[Mapping[str, Any]] | None = None,
        files: Sequence[Path | str | bytes] | None = None,
        version: int | None = None,
        probabilities: bool = True,
        coverage: float | None = 0.9,
        novelty: bool = True,
        influence: int = 0,
    ) -> dict[str, Any]:
        """Answer items: `classes`, and `answers` with label, probabilities, set and novelty.

        With `influence`, each answer names this many of the examples that decided it.
        """
        wanted = {"probabilities": probabilities, "coverage": coverage, "novelty": novelty}
        if influence:  # services before this option refuse its name
            wanted["influence"] = influence
        if version is not None:
            wanted["version"] = version
        if files is not None:
            given = {key: _plain(value) for key, value in wanted.items()}
            path = f"{_path(name, 'predict', 'files')}?{urlencode(given)}"
            return self._asked("POST", path, *_form(files, ()))
        content = _content(vectors, texts, rows)
        return self._asked("POST", _path(name, "predict"), *_json({**content, **wanted}))

    def add(
        self,
        name: str,
        labels: Sequence[Any],
        *,
        vectors: Any = None,  # noqa: ANN401 - lists or an array
        texts: Sequence[str] | None = None,
        rows: Sequence[Mapping[str, Any]] | None = None,
        files: Sequence[Path | str | bytes] | None = None,
    ) -> dict[str, Any]:
        """Add examples; a label that is new makes a class. Returns what is new, described."""
        if files is not None:
            form = _form(files, [str(label) for label in labels])
            return self._asked("POST", _path(name, "examples", "files"), *form)
        content = {**_content(vectors, texts, rows), "labels": _listed(labels)}
        return self._asked("POST", _path(name, "examples"), *_json(content))

    def examples(self, name: str) -> dict[str, Any]:
        """List the labels of the examples by place, and the version in which they have it."""
        return self._asked("GET", _path(name, "examples"))

    def remove(self, name: str, places: Sequence[int], *, version: int) -> dict[str, Any]:
        """Forget examples by their places in the newest version."""
        content = {"places": _listed(places), "version": version}
        return self._asked("POST", _path(name, "examples", "remove"), *_json(content))

    def remove_class(self, name: str, label: object) -> dict[str, Any]:
        """Forget all examples of a class."""
        return self._asked("DELETE", _path(name, "classes", str(label)))

    def _asked(
        self, method: str, path: str, body: bytes | None = None, kind: str | None = None
    ) -> dict[str, Any]:
        answered: dict[str, Any] = self._ask(method, path, body, kind)
        return answered

    def _ask(
        self, method: str, path: str, body: bytes | None = None, kind: str | None = None
    ) -> Any:  # noqa: ANN401 - JSON
        headers = {**self._headers, **({"Content-Type": kind} if kind else {})}
        for attempt in range(self._retries + 1):
            status, reply, wait = self._send(method, f"/v1/classifiers{path}", body, headers)
            if status == 200:
                return json.loads(reply)
            # Who is told to try again was not heard: not even a change is made twice.
            if status != 503 or wait is None or attempt == self._retries:
                break
            time.sleep(wait * (attempt + 1))
        raise Refused(status, _sentence(reply))

    def _send(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes, float | None]:
        """Send on this thread's connection; a question is sent again if that turns out dead."""
        connection = self._connection()
        is_question = method == "POST" and path.partition("?")[0].endswith(QUESTIONS)
        is_change = method != "GET" and not is_question
        was_reset = False
        while True:
            was_open = connection.sock is not None
            self._reach(connection)
            try:
                return _exchange(connection, method, self._base + path, body, headers)
            except (OSError, HTTPException) as error:
                connection.close()
                # A server that stops resets who stands before its door: once, that is asked again.
                is_reset = not was_open and isinstance(error, ConnectionResetError)
                again = was_open or (is_reset and not was_reset)
                was_reset = was_reset or is_reset
                if is_change or not again or isinstance(error, TimeoutError):
                    doubt = "; whether the change was made is unknown, `describe` tells the version"
                    raise self._silent(error, doubt if is_change else "") from error

    def _reach(self, connection: HTTPConnection) -> None:
        """Connect, unless it is."""
        try:
            if connection.sock is None:
                connection.connect()
        except (OSError, HTTPException) as error:
            connection.close()
            raise self._silent(error) from error

    def _silent(self, error: Exception, more: str = "") -> Refused:
        """Say that there was no answer."""
        return Refused(0, f"{self._host} does not answer: {error or type(error).__name__}{more}")

    def _connection(self) -> HTTPConnection:
        """Return this thread's connection; those of threads that have ended are closed."""
        own = threading.current_thread()
        with self._lock:
            for thread in [each for each in self._connections if not each.is_alive()]:
                self._connections.pop(thread).close()
            if own not in self._connections:
                kind = HTTPSConnection if self._https else HTTPConnection
                self._connections[own] = kind(self._host, self._port, timeout=self._timeout)
            connection = self._connections[own]
        if _is_dead(connection):
            connection.close()  # it opens by itself
        return connection


def _exchange(
    connection: HTTPConnection, method: str, path: str, body: bytes | None, headers: dict[str, str]
) -> tuple[int, bytes, float | None]:
    """Send a request and read its answer: status, body, and the seconds to wait if it says so."""
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    wait = response.headers.get("Retry-After")
    return response.status, response.read(), None if wait is None else float(wait)


def _is_dead(connection: HTTPConnection) -> bool:
    """Tell whether the other side has closed: only then is there something to read by itself."""
    if connection.sock is None:
        return False
    with selectors.DefaultSelector() as selector:
        selector.register(connection.sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def _path(*steps: str) -> str:
    return "".join(f"/{quote(step, safe='')}" for step in steps)


def _content(vectors: object, texts: object, rows: object) -> dict[str, Any]:
    given = {"vectors": vectors, "texts": texts, "rows": rows}
    return {name: _listed(items) for name, items in given.items() if items is not None}


def _listed(items: Any) -> Any:  # noqa: ANN401 - arrays of any library have `tolist`
    return items.tolist() if hasattr(items, "tolist") else list(items)


def _plain(value: object) -> str:
    """Write a value for an address; None is empty."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _json(content: Mapping[str, Any]) -> tuple[bytes, str]:
    return json.dumps(content, default=_listed).encode(), "application/json"


def _form(files: Sequence[Path | str | bytes], labels: Sequence[str]) -> tuple[bytes, str]:
    """Write a form; files are numbered, so that no path leaves this machine."""
    edge = uuid.uuid4().hex
    pieces = []
    for place, file in enumerate(files):
        content = file if isinstance(file, bytes) else Path(file).read_bytes()
        head = f'name="files"; filename="{place}"\r\nContent-Type: application/octet-stream'
        pieces.append(f"--{edge}\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode())
        pieces.append(content + b"\r\n")
    for label in labels:
        head = 'Content-Disposition: form-data; name="labels"'
        pieces.append(f"--{edge}\r\n{head}\r\n\r\n{label}\r\n".encode())
    pieces.append(f"--{edge}--\r\n".encode())
    return b"".join(pieces), f"multipart/form-data; boundary={edge}"


def _sentence(reply: bytes) -> str:
    try:
        return str(json.loads(reply)["error"])
    except (ValueError, KeyError, TypeError):
        return reply[:200].decode("utf-8", "replace") or "no reason was given"
