"""A mkdocs hook that resolves links out of docs/ and inserts the help of commands.

mkdocs calls `on_page_markdown` for each page (`hooks` in mkdocs.yml). A link to a file outside
docs/ works on GitHub; on the site it is rewritten to a link to GitHub. A missing file causes a
warning, or an error under --strict. `<!-- help: predict -->` is replaced by the output of
`unitail predict --help`.
"""

import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

LINK = re.compile(r"(?<=\]\()(\.\./[^)#\s]*)")
HELP = re.compile(r"<!-- help: ?([a-z ]*)-->")
COLUMNS = "86"
"""Width of the help text, which fits a code block of the theme without scrolling."""

log = logging.getLogger("mkdocs.hooks.docs_site")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:  # noqa: ANN401
    """Rewrite links and insert help texts before a page is rendered."""
    docs = Path(config["docs_dir"]).resolve()
    where = docs / page.file.src_uri

    def to_repository(match: re.Match[str]) -> str:
        target = (where.parent / match[1]).resolve()
        if target.is_relative_to(docs):
            return match[1]
        if not target.exists():
            log.warning("%s links to %s, which does not exist", page.file.src_uri, match[1])
        kind = "tree" if target.is_dir() else "blob"
        return f"{config['repo_url']}/{kind}/main/{target.relative_to(docs.parent).as_posix()}"

    return HELP.sub(lambda match: _help(match[1].split()), LINK.sub(to_repository, markdown))


def _help(command: list[str]) -> str:
    """Return the help of a command as a Markdown code block."""
    environment = {**os.environ, "COLUMNS": COLUMNS, "NO_COLOR": "1", "TERM": "dumb"}
    call = [sys.executable, "-m", "unitail", *command, "--help"]
    result = subprocess.run(call, env=environment, capture_output=True, text=True, check=True)
    lines = [
        line.rstrip() for line in result.stdout.replace("python -m unitail", "unitail").splitlines()
    ]
    return "\n".join(["```text", *lines, "```"])
