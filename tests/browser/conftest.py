from collections.abc import Iterator
from typing import Any

import pytest

from helpers.browsers import CHROMIUM, ERRORS


@pytest.fixture(autouse=True)
def _no_page_fails() -> Iterator[None]:
    ERRORS.clear()
    yield
    assert ERRORS == []


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        own = started.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield own
        own.close()
