from pathlib import Path

import pytest

from helpers.known_learners import write_blobs
from unitail.banks.cross import CrossTable
from unitail.banks.splits import split_classes
from unitail.benchmark.suite_file import SuiteFile, SuiteGroup, read_suite
from unitail.benchmark.suites import open_suite
from unitail.errors import InvalidBank
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.training.config import TrainingConfig
from unitail.training.recipe import BankChoice

BANKS = read_suite("banks")


def _banks(root: Path) -> Path:
    for name, encoder in (
        ("rsscn7", "efflite0"),
        ("cub200", "efflite0"),
        ("tiny_imagenet", "efflite0"),
        ("cifar10", "efflite0"),
        ("cub200", "resnet50"),
        ("imdb", "minilm"),
        ("wordnet_nouns", "minilm"),  # trained on, so no part of the suite
        ("imdb", "glove100"),
    ):
        write_blobs(root, name, encoder=encoder, classes=10)
    return root


def _suite(*sets: str, encoder: str = "net", overlap: tuple[str, ...] = ()) -> SuiteFile:
    group = SuiteGroup(name="mine", sets=sets, overlap=overlap)
    return SuiteFile(name="own", title="Own", encoder=encoder, groups=(group,))


def test_a_suite_is_the_banks_that_are_there_in_its_groups(tmp_path: Path) -> None:
    suite = open_suite(BANKS, _banks(tmp_path))
    assert [(table.group, table.name, table.overlap) for table in suite.tables] == [
        ("in-domain, held-out classes", "efflite0/tiny_imagenet", False),
        ("unseen image domains", "efflite0/cub200", True),
        ("unseen image domains", "efflite0/rsscn7", False),
        ("unseen encoder", "resnet50/cub200", True),
        ("text", "minilm/imdb", False),
        ("text", "glove100/imdb", False),
    ]
    assert "yamnet/esc50" in suite.missing
    assert "efflite0/dtd10" in suite.missing
    assert "efflite0/cub200" not in suite.missing
    marked, absent = suite.notes()
    assert marked.startswith("* Some classes may mean the same")
    assert absent.startswith("Banks of the suite that are not there: efflite0/dtd10, ")


def test_in_domain_classes_are_those_that_training_keeps_out(tmp_path: Path) -> None:
    choice = BankChoice(banks=("*",), held_out_from=("tiny_imagenet",))
    usual = TrainingConfig(steps=1, learning_rate=1.0)
    table = open_suite(BANKS, _banks(tmp_path)).tables[0]
    _, held_out = split_classes(table.bank, choice.held_out, usual.seed)
    assert table.table.class_names == held_out.class_names
    assert len(held_out.class_names) == 2


def test_without_banks_ways_to_make_them_are_named(tmp_path: Path) -> None:
    message = r"no bank of the suite 'banks': got no banks.*`unitail data prepare`.*--suite smoke"
    with pytest.raises(InvalidBank, match=message):
        open_suite(BANKS, tmp_path)
    with pytest.raises(InvalidBank, match=r"none is not a folder.*unitail bank import"):
        open_suite(BANKS, tmp_path / "none")


def test_banks_that_users_encode_are_those_of_the_suite(tmp_path: Path) -> None:
    write_blobs(tmp_path, "cub200", encoder="efficientnet-lite0", classes=10)
    suite = open_suite(BANKS, tmp_path)
    assert [table.name for table in suite.tables] == ["efficientnet-lite0/cub200"]
    assert "efflite0/cub200" not in suite.missing


def test_banks_of_any_name_are_tested_by_encoder(tmp_path: Path) -> None:
    for encoder, name in (("net", "mine"), ("owner/model", "yours"), ("net", "others")):
        write_blobs(tmp_path, name, encoder=encoder)
    tables = open_suite(read_suite("all"), tmp_path).tables
    assert [(table.group, table.name) for table in tables] == [
        ("net", "net/mine"),
        ("net", "net/others"),
        ("owner/model", "owner/model/yours"),
    ]


def test_the_smoke_suite_needs_no_banks(tmp_path: Path) -> None:
    tables = open_suite(read_suite("smoke"), tmp_path / "none").tables
    sizes = {table.bank.name: len(table.bank.class_names) for table in tables}
    assert sizes == {"digits": 10, "wine": 3, "breast_cancer": 2}


def test_queries_come_from_another_bank(tmp_path: Path) -> None:
    write_blobs(tmp_path, "photos", encoder="net", classes=6, rows=2)
    write_blobs(tmp_path, "paintings", encoder="net", classes=4, rows=5, seed=1)
    suite = open_suite(_suite("photos->paintings", overlap=("photos->paintings",)), tmp_path)
    [table] = suite.tables
    assert table.name == "net/photos->paintings"
    assert [bank.name for bank in table.banks] == ["photos", "paintings"]
    assert isinstance(table.table, CrossTable)
    assert len(table.table.class_names) == 4
    assert table.overlap
    assert "A->B: examples come from A, queries from B." in suite.notes()
    assert table.allows(EvaluationProtocol(shots=2))
    assert not table.allows(EvaluationProtocol(shots=3))
    other = open_suite(_suite("paintings->photos"), tmp_path).tables[0]
    assert other.allows(EvaluationProtocol(shots=5))
    shapes = [(4, 2), (4, 1), (3, 2)]  # all rows of all classes are examples in the first alone
    protocols = [EvaluationProtocol(ways=ways, shots=shots) for ways, shots in shapes]
    assert [table.has_one_support(each) for each in protocols] == [True, False, False]
    assert table.fingerprint != other.fingerprint


def test_a_pair_with_one_side_missing_is_missing(tmp_path: Path) -> None:
    write_blobs(tmp_path, "photos", encoder="net")
    suite = open_suite(_suite("photos", "photos->paintings"), tmp_path)
    assert suite.missing == ("net/photos->paintings",)
