import json
from pathlib import Path

from unitail.validity_study.report import summary_table, task_table, write_validity_report
from unitail.validity_study.study import ValidityStudy


def test_the_summary_counts_and_names_where_a_learner_fails(study: ValidityStudy) -> None:
    header, *rows = summary_table(study)
    assert header[1:-1] == ["valid", "no rise", "guesses", "rises", "cannot"]
    assert rows == [
        ["prototypes", "2", "0", "0", "0", "0", "nothing"],
        ["constant", "0", "0", "2", "0", "0", "narrow, wide"],
        ["forgetful", "0", "0", "0", "2", "0", "narrow, wide"],
        ["narrow", "1", "0", "0", "0", "1", "wide"],
    ]


def test_the_table_of_tasks_has_first_and_last_risks(study: ValidityStudy) -> None:
    _, _, wide = task_table(study)
    assert wide[:3] == ["wide", "wide", "2 to 40"]
    assert wide[-1] == "cannot"
    assert wide[4] == "guesses: 0.500 ± 0.000 → 0.500 ± 0.000"


def test_the_folder_is_self_contained(study: ValidityStudy, tmp_path: Path) -> None:
    write_validity_report(study, tmp_path, command="unitail validity", notes=["Not <there>."])
    text, page = (tmp_path / "README.md").read_text(), (tmp_path / "report.html").read_text()
    for words in ("unitail validity", "cannot: another width", "rise on easy"):
        assert words in text
        assert words in page
    assert "Not &lt;there&gt;." in page
    assert "<b>valid</b>" in page
    assert page.count("data:image/png;base64,") == 2  # nothing is loaded from elsewhere
    assert "http" not in page
    assert json.loads((tmp_path / "rows.json").read_text()) == study.rows()
    assert {path.name for path in tmp_path.iterdir()} == {
        *("README.md", "report.html", "rows.json", "curves.png", "verdicts.png")
    }
