from pathlib import Path

import pytest

from helpers.known_learners import write_blobs
from unitail.banks.splits import split_classes
from unitail.benchmark.suites import open_suite
from unitail.errors import InvalidBank, UserError
from unitail.training.config import TrainingConfig
from unitail.training.recipe import BankChoice


def _banks(root: Path) -> Path:
    for name, encoder in (
        ("rsscn7", "efflite0"),
        ("cub200", "efflite0"),
        ("tiny_imagenet", "efflite0"),
        ("cifar10", "efflite0"),
        ("cub200", "resnet50"),
        ("imdb", "minilm"),
        ("imdb", "glove100"),
    ):
        write_blobs(root, name, encoder=encoder, classes=10)
    return root


def test_a_suite_is_the_banks_that_are_there_in_its_groups(tmp_path: Path) -> None:
    suite = open_suite("banks", _banks(tmp_path))
    assert [(table.group, table.name) for table in suite.tables] == [
        ("in-domain, held-out classes", "efflite0/tiny_imagenet"),
        ("unseen image domains", "efflite0/cub200"),
        ("unseen image domains", "efflite0/rsscn7"),
        ("unseen encoder", "resnet50/cub200"),
        ("text", "minilm/imdb"),
        ("text", "glove100/imdb"),
    ]
    assert "yamnet/*" in suite.missing
    assert "efflite0/dtd10" in suite.missing
    assert "efflite0/cub200" not in suite.missing


def test_in_domain_classes_are_those_that_training_keeps_out(tmp_path: Path) -> None:
    choice = BankChoice(banks=("*",), held_out_from=("tiny_imagenet",))
    usual = TrainingConfig(steps=1, learning_rate=1.0)
    table = open_suite("banks", _banks(tmp_path)).tables[0]
    _, held_out = split_classes(table.bank, choice.held_out, usual.seed)
    assert table.table.class_names == held_out.class_names
    assert len(held_out.class_names) == 2


def test_without_banks_the_import_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidBank, match=r"no bank of the suite 'banks': got no banks.*bank impor"
    ):
        open_suite("banks", tmp_path)
    with pytest.raises(InvalidBank, match=r"none is not a folder.*unitail bank import"):
        open_suite("banks", tmp_path / "none")
    with pytest.raises(UserError, match="unknown suite: got other; allowed: banks"):
        open_suite("other", tmp_path)


def test_banks_that_users_encode_are_those_of_the_suite(tmp_path: Path) -> None:
    write_blobs(tmp_path, "cub200", encoder="efficientnet-lite0", classes=10)
    suite = open_suite("banks", tmp_path)
    assert [table.name for table in suite.tables] == ["efficientnet-lite0/cub200"]
    assert "efflite0/cub200" not in suite.missing
