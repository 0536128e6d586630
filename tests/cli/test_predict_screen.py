import io

from rich.console import Console

from unitail.cli.predict import MAX_CLASSES, print_scores
from unitail.workflows.answers import AnswerScores


def _printed(scores: AnswerScores) -> str:
    console = Console(file=io.StringIO(), width=100)
    print_scores(console, scores)
    return " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]


def test_the_classes_with_most_mistakes_come_first() -> None:
    confusion = {f"c{n:02}": {f"c{n:02}": 9, "c00": n} for n in range(1, MAX_CLASSES + 3)}
    words = _printed(AnswerScores(confusion, num_repeated=1))
    assert "1 item equal to an example is not counted." in words
    assert words.index("c14 23 39%") < words.index("c13 22 41%")
    assert "c02 " not in words
    assert "3 more classes have no more mistakes than these; --out FILE.json lists all." in words


def test_names_are_never_markup() -> None:
    assert "[bold]x 2 50%" in _printed(AnswerScores({"[bold]x": {"[bold]x": 1, "y": 1}}, 0))
