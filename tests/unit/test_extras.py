import json

import pytest

from unitail.errors import MissingExtra
from unitail.extras import optional


def test_a_module_that_is_there_is_imported() -> None:
    assert optional("json", extra="odd") is json


def test_a_missing_one_is_named_with_its_install_command() -> None:
    message = r"no_such_package is not installed: got .*; allowed: the packages of the extra 'odd'"
    with pytest.raises(MissingExtra, match=message) as refused:
        optional("no_such_package.inside", extra="odd")
    assert str(refused.value).endswith("Run `pip install 'unitail[odd]'`.")
