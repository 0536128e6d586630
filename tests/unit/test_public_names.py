import subprocess
import sys

import pytest

import unitail


@pytest.mark.parametrize("name", unitail.__all__)
def test_every_public_name_loads(name: str) -> None:
    assert getattr(unitail, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'unitail' has no attribute 'nothing'"):
        unitail.nothing  # noqa: B018


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = "import sys, unitail; print('torch' in sys.modules, len(dir(unitail)))"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["False", str(len(unitail.__all__) + 1)]
