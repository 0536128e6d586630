"""What a manifest refuses; damaged files of whole banks are in test_bank.py."""

from pathlib import Path
from typing import Any

import pytest

from helpers.banks import manifest_of
from unitail.banks.manifest import check_same, checked_names, describe, read_classes, read_manifest
from unitail.errors import InvalidBank, InvalidConfig
from unitail.files import write_json


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    manifest = manifest_of(7, 3, licence="MIT", source="here")
    write_json(tmp_path / "manifest.json", vars(manifest))
    assert read_manifest(tmp_path) == manifest


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "a/b"}, "name is out of range: got a/b; allowed: a name without a slash"),
        ({"name": ""}, "name is out of range: got nothing; allowed: the name of the data set"),
        ({"encoder": ""}, "encoder is out of range: got nothing"),
        (
            {"encoder": "\udcff"},
            r"encoder is out of range: got '\\udcff'; allowed: text that UTF-8 can encode",
        ),
        ({"rows": 0}, "rows is out of range: got 0; allowed: 1 or more"),
        ({"feature_dim": 0}, "feature_dim is out of range: got 0"),
        ({"format": 2}, "format is out of range: got 2; allowed: 1"),
    ],
)
def test_values_out_of_range_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        manifest_of(**{"rows": 7, "width": 3, **_renamed(changes)})


def _renamed(changes: dict[str, Any]) -> dict[str, Any]:
    return {"width" if key == "feature_dim" else key: value for key, value in changes.items()}


@pytest.mark.parametrize(
    ("names", "got"), [(["a", 3], "got 3"), (["a", "b", "a"], "got 'a' more than once")]
)
def test_class_names_are_different_texts(names: list[object], got: str, tmp_path: Path) -> None:
    write_json(tmp_path / "classes.json", names)
    with pytest.raises(InvalidBank, match=f"class names of .* are wrong: {got}"):
        read_classes(tmp_path)


def test_the_order_of_class_names_is_kept() -> None:
    assert checked_names(["b", "a", "c"], "here") == ("b", "a", "c")


def test_banks_of_different_things_are_told_apart_by_what_differs() -> None:
    one = describe(manifest_of(7, 3, labels_sha256="x"), ("a", "b"))
    same = describe(manifest_of(7, 3, labels_sha256="y"), ("a", "b"))
    check_same(one, same, "the bank", "Name another.")
    other = describe(manifest_of(8, 3), ("a", "c"))
    with pytest.raises(InvalidBank) as caught:
        check_same(one, other, "the bank", "Name another.")
    assert str(caught.value) == (
        "the bank does not match: got rows = 7, class_names = ['a', 'b']; "
        "allowed: rows = 8, class_names = ['a', 'c']. Name another."
    )
