import re

from unitail.evaluation.bench_run import Part
from unitail.evaluation.readme import picture_name, readme
from unitail.evaluation.summary import group_frame, summary_frame


def test_the_text_says_what_was_done_and_what_not(bench_parts: list[Part]) -> None:
    summary = summary_frame(bench_parts)
    text = readme("Title", "unitail bench", summary, group_frame(summary), ["A note."])
    for piece in (
        "# Title\n\n```sh\nunitail bench\n```",
        "of 12 episodes for each data set",
        "- Fewer classes than asked for, all of them used: toy/cars (3).",
        "- Fewer queries of a class, for want of rows: toy/news (3), toy/news (2).",
        "- A note.",
        "![accuracy, 5-way 1-shot](accuracy-5-way-1-shot.png)",
        "| learner | toy/birds | toy/cars |",
        "## Probabilities",
        "Milliseconds for an episode",
        "| none | cannot | toy/birds, toy/news | too many classes: got 5; allowed: none.",
        "allowed: 3 / fewer.",
    ):
        assert piece in text
    assert len(re.findall(r"\*\*\d", text)) > 4


def test_pictures_have_plain_names() -> None:
    name = picture_name("5-way 1-shot, Dirichlet(0.5) queries")
    assert name == "accuracy-5-way-1-shot-Dirichlet-0-5-queries.png"
