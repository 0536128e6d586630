from pathlib import Path

import pytest

from unitail.benchmark.suite_file import changed_suite, is_cross, read_suite, suite_names, swaps
from unitail.errors import InvalidConfig, UserError
from unitail.evaluation.protocol import ALL_WAYS

OWN = """
title = "Mine"
encoder = "net"
ways = [3, 5]
shots = [2]
episodes = 7
learners = ["unitail"]

[[groups]]
name = "first"
sets = ["a", "other/b", "a->c"]
overlap = ["a"]
"""


def _write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_a_file_says_all_of_a_suite(tmp_path: Path) -> None:
    suite = read_suite(str(_write(tmp_path, OWN)))
    assert (suite.name, suite.title, suite.learners) == ("mine", "Mine", ("unitail",))
    assert suite.patterns() == ["net/a", "other/b", "net/a->c"]
    assert [(each.ways, each.shots, each.episodes) for each in suite.protocols()] == [
        (3, 2, 7),
        (5, 2, 7),
    ]
    assert [is_cross(pattern) for pattern in suite.patterns()] == [False, False, True]


def test_ours_are_all_there_and_read() -> None:
    assert {"banks", "smoke", "all", "mteb", "intents"} <= set(suite_names())
    assert {each for each in suite_names() if each.startswith("paper")} == {
        *(f"paper_{name}" for name in ("in_domain", "cross_domain", "cross_modal", "resnet18")),
        *("paper_extrapolation", "paper_ablations"),
    }
    for name in suite_names():
        assert read_suite(name).patterns()
    for name in ("paper_in_domain", "paper_cross_domain", "paper_cross_modal"):
        assert {each.episodes for each in read_suite(name).protocols()} == {1000}
    assert read_suite("mteb").ways == (ALL_WAYS,)
    assert [each.name for each in read_suite("mteb").protocols()] == ["all-way 8-shot"]


def test_the_papers_asterisks() -> None:
    [group] = read_suite("paper_cross_domain").groups
    assert set(group.sets) - set(group.overlap) == {"cxr", "oct", "pbc"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("episodes", "episode"), r"unknown key in \[mine\]: got episode; allowed: name, title"),
        (("[2]", "[0]"), "shots is out of range: got 0"),
        (("sets", "banks"), r"unknown key in \[mine\.groups\]: got banks"),
        (('encoder = "net"', ""), "group 'first' names a set without an encoder: got a; allowed"),
        (("title", "= ="), r"mine\.toml cannot be read as a suite: got TOMLDecodeError"),
        (('title = "Mine"', 'title = ""\nname = "x"'), "a suite is named after its file"),
        (("[[groups]]", "[groups]"), r"mine\.groups has the wrong type.*allowed: a list"),
        (("[2]", "2"), r"mine\.shots has the wrong type: got 2; allowed: a list"),
    ],
)
def test_mistakes_are_reported(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    path = _write(tmp_path, OWN.replace(*change))
    with pytest.raises(UserError, match=message):
        read_suite(path)


def test_no_groups_and_groups_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="groups is out of range: got none"):
        read_suite(_write(tmp_path, 'title = "Empty"'))
    evil = OWN.replace('"unitail"', '"tail", "evil.py:x"')
    with pytest.raises(InvalidConfig, match=r"would be run: got evil\.py:x; .*after --learner"):
        read_suite(_write(tmp_path, evil))
    twice = OWN + '[[groups]]\nname = "first"\nsets = ["a"]\n'
    with pytest.raises(InvalidConfig, match=r"name of a group is .*'first'. twice"):
        read_suite(_write(tmp_path, twice))


def test_unknown_names_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unknown suite: got other; allowed: all, banks, .*file"):
        read_suite("other")
    with pytest.raises(UserError, match=r"no\.toml cannot be read as a suite: got FileNotFound"):
        read_suite(tmp_path / "no.toml")


def test_encoders_can_be_swapped(tmp_path: Path) -> None:
    suite = read_suite(_write(tmp_path, OWN)).with_encoders(swaps(["net=new", "other=newer"]))
    assert suite.patterns() == ["new/a", "newer/b", "new/a->c"]
    aliased = read_suite("banks").with_encoders({"efficientnet-lite0": "new"})
    assert aliased.patterns()[:2] == ["new/tiny_imagenet", "new/cub200"]
    with pytest.raises(UserError, match="which encoder replaces which: got net; allowed"):
        swaps(["net"])


def test_options_outweigh_the_file(tmp_path: Path) -> None:
    suite = read_suite(_write(tmp_path, OWN))
    changed = changed_suite(suite, {"episodes": 9, "shots": [4], "ways": None, "queries": None})
    assert (changed.episodes, changed.shots, changed.ways) == (9, (4,), (3, 5))
    assert changed.groups == suite.groups
