"""Settings for all tests."""

import gc
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Sizes drive the running time, not defects: a fixed, small number of examples and no deadline.
settings.register_profile("default", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("default")
# Tiny tensors: threads cost more than they give. Torch reads this when it is imported, here, by
# workers and by what tests start; the process that hands out tests never imports it.
os.environ["OMP_NUM_THREADS"] = "1"
gc.disable()  # until all is imported and collected: there is nothing to free, and much to look at


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with the most slow tests first: none of them is left to one worker at the end."""
    tests: Counter[Path] = Counter(item.path for item in items)
    slow: Counter[Path] = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: (-slow[item.path], -tests[item.path]))


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what was imported: that saves a tenth of all time."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def _no_one_elses_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests from reading or filling the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNITAIL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
