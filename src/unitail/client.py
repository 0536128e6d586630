"""A client for `unitail serve`. It needs nothing but Python's standard library.

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
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

from unitail.errors import InvalidConfig, UnitailError

QUESTIONS = ("/predict", "/predict/files")
"""Suffixes of the routes that may be requested twice, since they change nothing."""
MAX_WAIT = 10.0
"""Longest wait before a request is sent again, in seconds."""


class Refused(UnitailError):
    """The service refused a request, or could not be reached."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(f"{sentence} (status {status})" if status else sentence)
        self.status = status
        """The HTTP status; 0 if there was no answer."""


class Client:
    """A client of one service; threads may share it, each with its own connection.

    Items are given as one of `vectors` (a list of lists of numbers, or an array), `texts`, `rows`
    (mappings from columns to values) or `files` (paths, or the bytes of files).

    Parameters
    ----------
    url : str, default="http://127.0.0.1:8000"
        The URL of the service.
    token : str, default=None
        The token of the service, if it has one.
    timeout : float, default=60
        Seconds to wait for an answer.
    retries : int, default=3
        How often to try again when the service is overloaded.

    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        *,
        token: str | None = None,
        timeout: float = 60.0,
        retries: int = 3,
    ) -> None:
        scheme, self._host, self._port, self._base = _parts(url)
        self._https = scheme == "https"
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._timeout, self._retries = timeout, retries
        self._lock = threading.Lock()
        self._connections: dict[threading.Thread, HTTPConnection] = {}

    def close(self) -> None:
        """Close all connections; later requests open new ones."""
        with self._lock:
            for connection in self._connections.values():
                connection.close()
            self._connections.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def classifiers(self) -> list[dict[str, Any]]:
        """List the classifiers: name, version, what each takes, classes."""
        classifiers: list[dict[str, Any]] = self._request("GET", "")
        return classifiers

    def describe(self, name: str, *, version: int | None = None) -> dict[str, Any]:
        """Describe a classifier, or one of its versions: what it takes, classes, kept versions."""
        query = "" if version is None else f"?version={version}"
        return self._request_object("GET", _path(name) + query)

    def health(self) -> bool:
        """Return whether the server is alive, though it may not be ready yet."""
        return self._is_good("/health")

    def metrics(self) -> str:
        """Return the service's metrics, in Prometheus's text format."""
        status, reply, _ = self._send("GET", "/metrics", None, self._headers)
        if status != 200:
            raise Refused(status, _sentence(reply))
        return reply.decode("utf-8", "replace")

    def ready(self) -> bool:
        """Return whether the service is ready to answer."""
        return self._is_good("/ready")

    def _is_good(self, path: str) -> bool:
        try:
            return self._send("GET", path, None, {})[0] == 200
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
        """Classify items: returns `classes`, and `answers` with label, probabilities, set, novelty.

        With `influence`, each answer names this many of the examples that decided it.
        """
        _check_items(vectors=vectors, texts=texts, rows=rows, files=files)
        options = {"probabilities": probabilities, "coverage": coverage, "novelty": novelty}
        if influence:  # older services refuse this option
            options["influence"] = influence
        if version is not None:
            options["version"] = version
        if files is not None:
            query = {key: _plain(value) for key, value in options.items()}
            path = f"{_path(name, 'predict', 'files')}?{urlencode(query)}"
            return self._request_object("POST", path, *_form(files, ()))
        content = _content(vectors, texts, rows)
        return self._request_object("POST", _path(name, "predict"), *_json({**content, **options}))

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
        """Add examples; a new label creates a class. Returns a description of the new version."""
        _check_items(vectors=vectors, texts=texts, rows=rows, files=files)
        _check_list("labels", labels)
        if files is not None:
            form = _form(files, [str(label) for label in labels])
            return self._request_object("POST", _path(name, "examples", "files"), *form)
        content = {**_content(vectors, texts, rows), "labels": _to_list(labels)}
        return self._request_object("POST", _path(name, "examples"), *_json(content))

    def examples(self, name: str) -> dict[str, Any]:
        """List the labels of all examples by place, and the version to which the places refer."""
        return self._request_object("GET", _path(name, "examples"))

    def remove(self, name: str, places: Sequence[int], *, version: int) -> dict[str, Any]:
        """Remove examples by their places in the newest version."""
        content = {"places": _to_list(places), "version": version}
        return self._request_object("POST", _path(name, "examples", "remove"), *_json(content))

    def remove_class(self, name: str, label: object) -> dict[str, Any]:
        """Remove all examples of a class."""
        return self._request_object("DELETE", _path(name, "classes", str(label)))

    def _request_object(
        self, method: str, path: str, body: bytes | None = None, kind: str | None = None
    ) -> dict[str, Any]:
        reply: dict[str, Any] = self._request(method, path, body, kind)
        return reply

    def _request(
        self, method: str, path: str, body: bytes | None = None, kind: str | None = None
    ) -> Any:  # noqa: ANN401 - JSON
        headers = {**self._headers, **({"Content-Type": kind} if kind else {})}
        for attempt in range(self._retries + 1):
            status, reply, wait = self._send(method, f"/v1/classifiers{path}", body, headers)
            if status == 200:
                return _content_of(reply)
            # A 503 with Retry-After means that nothing was done: even changes may be sent again.
            if status != 503 or wait is None or attempt == self._retries:
                break
            time.sleep(min(wait * (attempt + 1), MAX_WAIT))
        raise Refused(status, _sentence(reply))

    def _send(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes, float | None]:
        """Send a request on this thread's connection; resend it if the connection is found dead.

        Changes are never sent twice.
        """
        connection = self._connection()
        is_question = method == "POST" and path.partition("?")[0].endswith(QUESTIONS)
        is_change = method != "GET" and not is_question
        was_reset = False
        while True:
            was_open = connection.sock is not None
            self._connect(connection)
            try:
                return _exchange(connection, method, self._base + path, body, headers)
            except (OSError, HTTPException) as error:
                connection.close()
                # A stopping server resets connections it has not accepted: try once more.
                is_reset = not was_open and isinstance(error, ConnectionResetError)
                may_retry = was_open or (is_reset and not was_reset)
                was_reset = was_reset or is_reset
                if is_change or not may_retry or isinstance(error, TimeoutError):
                    doubt = "; whether the change was made is unknown, `describe` tells the version"
                    raise self._no_answer(error, doubt if is_change else "") from error

    def _connect(self, connection: HTTPConnection) -> None:
        """Connect, unless the connection is open."""
        try:
            if connection.sock is None:
                connection.connect()
        except (OSError, HTTPException) as error:
            connection.close()
            raise self._no_answer(error) from error

    def _no_answer(self, error: Exception, more: str = "") -> Refused:
        """Return the error for a request without an answer."""
        return Refused(0, f"{self._host} does not answer: {error or type(error).__name__}{more}")

    def _connection(self) -> HTTPConnection:
        """Return this thread's connection; close those of threads that have ended."""
        this_thread = threading.current_thread()
        with self._lock:
            for thread in [each for each in self._connections if not each.is_alive()]:
                self._connections.pop(thread).close()
            if this_thread not in self._connections:
                kind = HTTPSConnection if self._https else HTTPConnection
                new = kind(self._host, self._port, timeout=self._timeout)
                self._connections[this_thread] = new
            connection = self._connections[this_thread]
        if _is_dead(connection):
            connection.close()  # the next request opens it again
        return connection


def _exchange(
    connection: HTTPConnection, method: str, path: str, body: bytes | None, headers: dict[str, str]
) -> tuple[int, bytes, float | None]:
    """Send a request and return status and body of its answer, and the seconds of Retry-After."""
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    return response.status, response.read(), _seconds(response.headers.get("Retry-After"))


def _seconds(retry_after: str | None) -> float | None:
    """Return the seconds that a Retry-After asks for, as a number or a date; None if it does not.

    Proxies in front of a service write dates.
    """
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(retry_after).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return seconds if seconds > 0 else 0.0


def _content_of(reply: bytes) -> Any:  # noqa: ANN401 - JSON
    """Return the content of a reply; what is not JSON comes from another program."""
    try:
        return json.loads(reply)
    except (ValueError, RecursionError) as error:
        sentence = (
            f"the reply is not JSON: got {reply[:60]!r}; allowed: what `unitail serve` replies."
            " Check the address: another program answers there."
        )
        raise Refused(200, sentence) from error


def _parts(url: str) -> tuple[str, str, int | None, str]:
    """Return scheme, host, port and path of a URL."""
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname:
            return parts.scheme, parts.hostname, parts.port, parts.path.rstrip("/")
    except ValueError:  # no number where the port belongs, or brackets that do not match
        pass
    raise InvalidConfig(
        "the address of a service is a URL",
        got=repr(url),
        allowed="http://HOST:PORT, or https://HOST",
    )


def _is_dead(connection: HTTPConnection) -> bool:
    """Return whether the server has closed the connection: only then is it readable when idle."""
    if connection.sock is None:
        return False
    with selectors.DefaultSelector() as selector:
        selector.register(connection.sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def _path(*steps: str) -> str:
    return "".join(f"/{quote(step, safe='')}" for step in steps)


def _check_items(**items: object) -> None:
    """Refuse items of several kinds, and single ones: a text would be sent as its characters."""
    kinds = [kind for kind, values in items.items() if values is not None]
    if len(kinds) != 1:
        raise InvalidConfig(
            "a call takes items of one kind",
            got=" and ".join(kinds) or "none",
            allowed="one of vectors, texts, rows and files",
        )
    _check_list(kinds[0], items[kinds[0]])


def _check_list(name: str, values: object) -> None:
    if isinstance(values, str | bytes | Path | Mapping):
        raise InvalidConfig(
            f"{name} is a list",
            got=f"a single {type(values).__name__}",
            allowed="a list, even for one item",
            remedy=f"Write {name}=[...].",
        )


def _content(vectors: object, texts: object, rows: object) -> dict[str, Any]:
    items = {"vectors": vectors, "texts": texts, "rows": rows}
    return {kind: _to_list(values) for kind, values in items.items() if values is not None}


def _to_list(items: Any) -> Any:  # noqa: ANN401 - arrays of any library have `tolist`
    return items.tolist() if hasattr(items, "tolist") else list(items)


def _plain(value: object) -> str:
    """Return a value as text for a query string; None is empty."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _json(content: Mapping[str, Any]) -> tuple[bytes, str]:
    return json.dumps(content, default=_to_list).encode(), "application/json"


def _form(files: Sequence[Path | str | bytes], labels: Sequence[str]) -> tuple[bytes, str]:
    """Return a multipart form; files are numbered, so that no path leaves this machine."""
    boundary = uuid.uuid4().hex
    pieces = []
    for place, file in enumerate(files):
        content = file if isinstance(file, bytes) else Path(file).read_bytes()
        head = f'name="files"; filename="{place}"\r\nContent-Type: application/octet-stream'
        pieces.append(f"--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode())
        pieces.append(content + b"\r\n")
    for label in labels:
        head = 'Content-Disposition: form-data; name="labels"'
        pieces.append(f"--{boundary}\r\n{head}\r\n\r\n{label}\r\n".encode())
    pieces.append(f"--{boundary}--\r\n".encode())
    return b"".join(pieces), f"multipart/form-data; boundary={boundary}"


def _sentence(reply: bytes) -> str:
    try:
        return str(json.loads(reply)["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return reply[:200].decode("utf-8", "replace") or "no reason was given"
