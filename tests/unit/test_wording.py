import os
from pathlib import Path

import pytest

from unitail.wording import MAX_EXCERPT, excerpt, is_utf8, markdown_table, numbered, shown, some


@pytest.mark.parametrize(
    ("number", "noun", "phrase"),
    [
        (0, "file", "0 files"),
        (1, "file", "1 file"),
        (2000, "file", "2,000 files"),
        (1, "class", "1 class"),
        (3, "class", "3 classes"),
    ],
)
def test_nouns_follow_their_number(number: int, noun: str, phrase: str) -> None:
    assert numbered(number, noun) == phrase


@pytest.mark.parametrize(
    ("names", "phrase"),
    [([], ""), (["a"], "a"), (["a", "b"], "a, b"), (["a", "b", 3, 4], "a, b and 2 more")],
)
def test_a_long_list_ends_in_the_number_of_the_others(names: list[object], phrase: str) -> None:
    assert some(names, 2) == phrase


@pytest.mark.parametrize(
    ("text", "is_good"),
    [("", True), ("aü\U0001f98a\0", True), ("a\ud800", False), ("\udc80", False)],
)
def test_texts_with_half_of_a_pair_of_surrogates_are_no_utf8(text: str, is_good: bool) -> None:
    assert is_utf8(text) is is_good


def test_a_list_may_have_another_separator_and_come_from_anywhere() -> None:
    assert some(map(repr, "abc"), 2, separator="; ") == "'a'; 'b' and 1 more"


def test_names_cannot_steer_the_terminal() -> None:
    assert shown(Path("a\x1b[31m")) == "a\N{REPLACEMENT CHARACTER}[31m"
    assert shown(os.fsdecode(b"caf\xe9")) == "caf\N{REPLACEMENT CHARACTER}"


def test_an_excerpt_is_one_line_of_limited_length() -> None:
    assert excerpt(" one\n two\tthree ") == "one two three"
    assert excerpt("a" * 200) == "a" * (MAX_EXCERPT - 1) + "…"
    assert excerpt("abcdef", 4) == "abc…"
    assert excerpt("a\x07b") == "a\N{REPLACEMENT CHARACTER}b"


def test_a_table_is_aligned() -> None:
    assert markdown_table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | ---: |\n| 1 | 2 |"
