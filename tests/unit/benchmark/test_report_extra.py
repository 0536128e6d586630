import sys

import pytest

from unitail.benchmark.report_extra import optional, require_report_extra
from unitail.errors import UserError


def test_what_is_there_is_imported() -> None:
    require_report_extra()
    assert optional("json").loads("1") == 1


@pytest.mark.parametrize("name", ["pandas", "pyarrow", "matplotlib"])
def test_a_missing_package_names_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [each for each in sys.modules if each.split(".")[0] == name]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=rf"{name} is not installed.*'unitail\[report\]'"):
        require_report_extra()
