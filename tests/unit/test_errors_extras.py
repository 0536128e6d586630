import sys

import pytest

from unitail.errors import MissingExtra, optional


def test_a_package_that_is_there_is_imported() -> None:
    assert optional("json.decoder", extra="report") is sys.modules["json.decoder"]


def test_a_missing_package_is_named_with_the_extra_that_brings_it() -> None:
    with pytest.raises(MissingExtra) as caught:
        optional("no_such_package.inside", extra="encoders")
    message = str(caught.value)
    assert message.startswith("no_such_package is not installed: got No module named")
    assert message.endswith("Run `pip install 'unitail[encoders]'`.")


def test_a_fault_inside_a_package_is_not_taken_for_its_absence(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("packages")
    (folder / "faulty_package.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(folder))
    with pytest.raises(ZeroDivisionError):
        optional("faulty_package", extra="report")
