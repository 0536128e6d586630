"""The documentation's examples run in the order of their page, and print what it shows."""

from pathlib import Path

import pytest

from helpers.markdown import examples, printed
from unitail import EvaluationProtocol, GaussianTasks, score_learner
from unitail.benchmark.learners import load_learners

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if any(examples(page)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_the_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNITAIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for code, text in examples(page):
        output = printed(code)
        assert output == text or (text is None and output != "")


def test_the_guides_have_examples() -> None:
    names = {page.relative_to(DOCS).as_posix() for page in PAGES}
    guides = {f"guide/{name}.md" for name in ("images", "text", "audio", "tables")}
    assert names >= {"index.md", "reproduce.md", "training.md", *guides}


def test_the_file_with_a_custom_learner_is_one(tmp_path: Path) -> None:
    page = (DOCS / "reproduce.md").read_text()
    file = tmp_path / "mine.py"
    file.write_text(page.split("```py\n")[1].split("```")[0])
    (own,) = load_learners(tmp_path, [f"{file}:NearestExample"], own=True)
    tasks, protocol = GaussianTasks(feature_dims=(16,)), EvaluationProtocol(ways=3, episodes=20)
    assert score_learner(own.learner, tasks, protocol).accuracy.mean > 0.5
