"""Requests to a service as strangers may send them: every byte is the test's own."""

import http.client
import json
from typing import Any

from helpers.services import ASKED, Live
from unitail.service.limits import ServiceLimits

TOKEN = "a-token-of-24-characters"
LIMITS = ServiceLimits(
    body_bytes=40_000,
    json_bytes=20_000,
    bytes_at_work=50_000,
    body_seconds=1.5,
    items=20,
    pixels=10_000,
    concurrency=4,
)
QUESTION = json.dumps({"vectors": [ASKED[0].tolist()]}).encode()
PREDICT = "/v1/classifiers/blobs/predict"
JSON = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}


def send(
    live: Live,
    method: str = "POST",
    path: str = PREDICT,
    body: Any = QUESTION,  # noqa: ANN401 - bytes, or an iterable of them
    headers: dict[str, str] = JSON,
) -> tuple[int, dict[str, str], str]:
    """Send a request as it is; return status, headers and the sentence of a refusal."""
    connection = http.client.HTTPConnection("127.0.0.1", int(live.url.rpartition(":")[2]))
    try:
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        text = reply.read().decode()
        named = {name.lower(): value for name, value in reply.getheaders()}
        is_json = named["content-type"] == "application/json" and text
        content = json.loads(text) if is_json else {}
        return reply.status, named, str(content.get("error", "")) if content else text
    finally:
        connection.close()
