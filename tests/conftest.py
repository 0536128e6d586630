"""Settings for all tests."""

import gc
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

# Sizes drive the running time, not defects: a fixed, small number of examples and no deadline.
settings.register_profile("default", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("default")
torch.set_num_threads(1)  # tiny tensors: threads cost more than they give


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what was imported: that saves a tenth of all time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _no_one_elses_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests from reading or filling the cache of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNITAIL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
