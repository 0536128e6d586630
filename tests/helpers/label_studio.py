"""Label Studio's requests to a service: those of label-studio-ml 1.0.9, and of its hooks."""

import json
import urllib.error
import urllib.request
from typing import Any

from helpers.services import Live

TEXTS = """<View><Text name="text" value="$letter"/>
<Choices name="kind" toName="text"><Choice value="A"/><Choice value="B"/></Choices></View>"""
IMAGES = TEXTS.replace("Text", "Image").replace("$letter", "$image")
PROJECT = "7.1700000000"


def post(live: Live, path: str, content: Any) -> tuple[int, Any]:  # noqa: ANN401
    """Send content as JSON; return the status and the reply."""
    return send(live, path, json.dumps(content).encode())


def send(live: Live, path: str, body: bytes) -> tuple[int, Any]:
    """Send a body to a route of the integration."""
    url = f"{live.url}/label-studio/{path}"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def ask(live: Live, name: str, config: str, *values: str) -> tuple[int, Any]:
    """Ask for suggestions for texts, or images."""
    key = "letter" if "letter" in config else "image"
    tasks = [{"id": place, "data": {key: value}} for place, value in enumerate(values)]
    content = {
        "tasks": tasks,
        "model_version": None,
        "project": PROJECT,
        "label_config": config,
        "params": {"login": None, "password": None, "context": None},
    }
    return post(live, f"{name}/predict", content)


def annotated(choices: list[str], text: str) -> dict[str, Any]:
    """Return the event of an annotation."""
    chosen = {
        "from_name": "kind",
        "to_name": "text",
        "type": "choices",
        "value": {"choices": choices},
    }
    return {
        "action": "ANNOTATION_CREATED",
        "project": {"id": 7, "label_config": TEXTS},
        "task": {"id": 1, "data": {"letter": text}},
        "annotation": {"id": 3, "result": [chosen] if choices else []},
    }
