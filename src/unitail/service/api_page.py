"""The page that describes the service: plain HTML, generated from the OpenAPI description."""

import json
from html import escape
from typing import Any

PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
"""Content security policy of a page without scripts, images or requests."""
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem;
  color-scheme: light dark }
code, pre { font: 14px/1.4 ui-monospace, monospace } pre { overflow-x: auto; padding: .5rem;
  border: 1px solid #8886 } section { border-top: 1px solid #8886; margin-top: 1.5rem }
table { border-collapse: collapse } td, th { text-align: left; padding: .15rem .8rem .15rem 0;
  vertical-align: top } .method { font-weight: 600 }
"""


def api_page(schema: dict[str, Any]) -> str:
    """Return a page that describes every route: what it takes and what it answers."""
    sections = [
        _section(schema, path, method, operation)
        for path, operations in schema["paths"].items()
        for method, operation in operations.items()
    ]
    title = escape(schema["info"]["title"])
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>{title}: HTTP interface</title><style>{STYLE}</style>"
        f"<h1>{title} {escape(schema['info']['version'])}</h1>"
        f"<p>{escape(schema['info'].get('summary', ''))} Machine-readable: "
        "<a href='/openapi.json'>/openapi.json</a> (OpenAPI). A refused request gets"
        ' <code>{"error": "one sentence"}</code>. If the server was started with a token, every'
        " request needs the header <code>Authorization: Bearer TOKEN</code>.</p>"
        + "".join(sections)
        + "</html>"
    )


def _section(schema: dict[str, Any], path: str, method: str, operation: dict[str, Any]) -> str:
    parts = [
        f"<section><h2><code><span class=method>{method.upper()}</span> {escape(path)}</code></h2>",
        f"<p><b>{escape(operation.get('summary', ''))}.</b> ",
        f"{escape(operation.get('description', ''))}</p>",
    ]
    rows = [
        (each["name"], each["schema"], each.get("description", ""))
        for each in operation.get("parameters", ())
    ]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        body = _resolved(schema, content["schema"])
        rows += [
            (name, field, field.get("description", ""))
            for name, field in body.get("properties", {}).items()
        ]
    if rows:
        parts.append("<table><tr><th>field<th>type<th>meaning")
        parts += [
            f"<tr><td><code>{escape(name)}</code><td>{escape(_type(field))}<td>{escape(text)}"
            for name, field, text in rows
        ]
        parts.append("</table>")
    parts += [
        f"<p>Answers {status}: <code>{escape(_answer_type(schema, reply))}</code></p>"
        for status, reply in operation["responses"].items()
        if status == "200"
    ]
    return "".join([*parts, "</section>"])


def _resolved(schema: dict[str, Any], field: dict[str, Any]) -> dict[str, Any]:
    reference = field.get("$ref")
    if reference is None:
        return field
    definition: dict[str, Any] = schema["components"]["schemas"][reference.rpartition("/")[2]]
    return definition


def _answer_type(schema: dict[str, Any], reply: dict[str, Any]) -> str:
    contents: list[dict[str, Any]] = list(reply.get("content", {}).values())
    content: dict[str, Any] = contents[0].get("schema", {}) if contents else {}
    properties = _resolved(schema, content).get("properties")
    if properties is None:
        return _type(content)
    return json.dumps({name: _type(field) for name, field in properties.items()})


def _type(field: dict[str, Any]) -> str:
    """Describe a field's type in a few words."""
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(each) for each in field["anyOf"]))
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    return str(field.get("type", "anything"))
