"""The result page of a campaign."""

import subprocess
import time
from pathlib import Path

from measuring import page

from unitail import __version__


class Page(page.Page):
    """A page that states the version under test and the date."""

    def __init__(self, path: Path, title: str, about: str) -> None:
        """Write the head."""
        super().__init__(path, title, f"{about} {_version()} of {time.strftime('%Y-%m-%d')}.")


def _version() -> str:
    """Return the commit, or the version if there is none."""
    arguments = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        result = subprocess.run(arguments, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return f"Version {__version__}"
    return f"Commit {result.stdout.strip()}"
