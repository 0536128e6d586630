import csv
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas
import pytest

from helpers.studios import answered, open_studio, post, write_pictures
from helpers.wavy_table import wavy_table
from unitail.errors import CannotWrite, InvalidInput
from unitail.estimator.classifier import TailClassifier
from unitail.studio.app import make_app
from unitail.studio.exports import ResultKind, Results
from unitail.studio.stored_rows import ASIDE, Origin
from unitail.studio.studio import Studio
from unitail.web.access import Access
from unitail.workflows.sort_files import SortBy


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    folder = tmp_path_factory.mktemp("export") / "pictures"
    write_pictures(folder, 12)
    (folder / "broken.png").write_bytes(b"")
    studio = answered(open_studio(folder))
    ids = [studio.store.add_class(name).class_id for name in ("red", "green", "blue")]
    studio.sync()
    studio.label({place: ids[place % 3] for place in range(6)}, {}, author="")
    studio.label({11: ASIDE}, {}, author="")
    yield studio
    studio.stop()


@pytest.fixture(scope="module")
def results(studio: Studio) -> Results:
    return studio.results()


def test_a_table_has_every_item_in_its_order(results: Results, tmp_path: Path) -> None:
    results.write(ResultKind.TABLE, tmp_path / "a.csv")
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert [Path(row["file"]).name for row in rows] == [
        *(f"{n:04}.png" for n in range(12)),
        "broken.png",
    ]
    assert [row["answer"] for row in rows[:11]] == (["red", "green", "blue"] * 4)[:11]
    assert [row["state"] for row in rows[:6]] == ["given"] * 6
    assert [row["label"] for row in rows[:7]] == ["red", "green", "blue"] * 2 + [""]
    assert {row["state"] for row in rows[6:11]} <= {"likely", "doubtful", "novel"}
    assert (rows[11]["state"], rows[11]["reason"]) == ("skipped", "set aside: none of the classes")
    assert rows[12]["state"] == "skipped"
    assert rows[12]["reason"]


def test_json_and_report_and_classifier(results: Results, tmp_path: Path) -> None:
    results.write(ResultKind.TABLE, tmp_path / "a.json")
    told = json.loads((tmp_path / "a.json").read_text())
    assert told["examples"] == {"blue": 2, "green": 2, "red": 2}
    assert len(told["answers"]) == 13
    results.write(ResultKind.REPORT, tmp_path / "a.html")
    assert "Answers for pictures" in (tmp_path / "a.html").read_text()


def test_labels_of_a_table_are_those_that_the_studio_has_now(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    rows = ["0,0,a", "1,1,a", "9,9,b", "8,8,a", "1,0,", "8,9,", "0,1,b", "9,8,b"]
    table.write_text("\n".join(["x,y,label", *rows, ""]))
    studio = answered(open_studio(table))
    ids = {row.name: row.id for row in studio.labels.classes()}
    wishes = {3: ids["b"], 4: ids["a"], 6: None, 7: ASIDE}  # corrected, new, removed, set aside
    seen = {place: studio.labels.row(place).version for place in wishes}
    studio.label(wishes, seen, author="")
    for suffix in (".csv", ".parquet"):
        path = tmp_path / f"out{suffix}"
        answered(studio).results().write(ResultKind.TABLE, path)
        frame = pandas.read_csv(path) if suffix == ".csv" else pandas.read_parquet(path)
        labels = frame["label"].fillna("").tolist()
        assert labels == ["a", "a", "b", "b", "a", "", "", ""]
    studio.stop()


def test_a_report_that_goes_elsewhere_has_no_links_to_files(
    results: Results, tmp_path: Path
) -> None:
    for has_links in (True, False):
        results.write(ResultKind.REPORT, tmp_path / "r.html", has_links=has_links)
        page = (tmp_path / "r.html").read_text()
        assert ('0007.png">' in page) is has_links
        assert "0007.png" in page
        assert "0001.png" in page


def test_a_saved_classifier_answers_new_rows(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("x,y,label\n0,0,a\n1,1,a\n9,9,b\n8,8,b\n1,0,\n8,9,\n")
    studio = answered(open_studio(table))
    studio.results().write(ResultKind.CLASSIFIER, tmp_path / "saved")
    loaded = TailClassifier.load(tmp_path / "saved", device="cpu")
    assert loaded.predict(pandas.DataFrame({"x": [0.5, 8.5], "y": [1, 9]})).tolist() == ["a", "b"]
    with pytest.raises(InvalidInput, match="only files can be sorted"):
        studio.results().sort_into(tmp_path / "sorted", SortBy.COPY)
    studio.stop()


def test_a_table_is_answered_as_the_classifier_with_an_encoder_answers(tmp_path: Path) -> None:
    """The studio's encoder learns from all rows: each is here twice, labelled and not."""
    known = wavy_table()
    pandas.concat([known, known.assign(label="")]).to_csv(tmp_path / "t.csv", index=False)
    rows = known.drop(columns="label")
    own = TailClassifier(encoder="auto", random_state=0, device="cpu").fit(rows, known["label"])
    expected = own.predict_proba(rows).max(axis=1)
    studio = answered(open_studio(tmp_path / "t.csv"))
    page = studio.answers.at(np.arange(30, 60))
    np.testing.assert_allclose(page.probabilities[:, 0], expected, atol=1e-3)
    own.fit(rows, known["label"], pool=rows)  # in a studio the rest is there, and read as a pool
    expected = own.predict_proba(rows).max(axis=1)
    studio.answerer.refine()
    page = studio.answers.at(np.arange(30, 60))
    np.testing.assert_allclose(page.probabilities[:, 0], expected, atol=1e-3)
    results = studio.results()
    told = [each.probability for each in results.answers.answers]
    np.testing.assert_allclose(told, expected, atol=1e-6)
    np.testing.assert_allclose(results.classifier.predict_proba(rows).max(axis=1), expected)
    studio.stop()


@pytest.mark.parametrize("by", [SortBy.COPY, SortBy.LINK])
def test_files_are_sorted_by_class(results: Results, tmp_path: Path, by: SortBy) -> None:
    results.sort_into(tmp_path, by)
    places = {path.name: path.parent.name for path in tmp_path.rglob("*.png")}
    assert len(places) == 11
    assert places["0000.png"] == "red"
    assert places["0004.png"] == "green"
    assert (tmp_path / "red" / "0000.png").is_symlink() == (by is SortBy.LINK)
    again = results.sort_into(tmp_path, by)
    assert all(step.is_there for step in again.steps)
    with pytest.raises(CannotWrite, match="files cannot be sorted into"):
        results.sort_into(results.source / "sorted", by)


def test_answers_are_made_once_until_a_label_or_a_file_changes(tmp_path: Path) -> None:
    write_pictures(tmp_path, 6)
    studio = answered(open_studio(tmp_path))
    studio.apply(lambda store: store.label_by_name({"0000.png": "red", "0001.png": "green"}))
    first = studio.results()
    assert studio.results() is first
    studio.apply(lambda store: store.label_by_name({"0002.png": "blue"}))
    second = studio.results()
    assert second.answers.examples == {"blue": 1, "green": 1, "red": 1}
    (tmp_path / "0005.png").unlink()
    third = studio.results()
    assert [len(each.answers.answers) for each in (first, second, third)] == [4, 3, 2]
    assert studio.results() is third
    studio.stop()


def test_sets_are_calibrated_without_labels_confirmed_at_once(tmp_path: Path) -> None:
    colours = write_pictures(tmp_path, 80)
    studio = open_studio(tmp_path)
    ids = {name: studio.store.add_class(name).class_id for name in dict.fromkeys(colours)}
    studio.sync()
    own = {place: ids[colours[place]] for place in range(30)}
    easy = {place: ids[colours[place]] for place in range(30, 70)}
    studio.label(own, {}, author="")
    studio.label(easy, {}, author="", origin=Origin.CONFIRMED)
    studio.vectors.encode_all()
    fitted = studio.results().classifier.fitted_
    assert len(fitted.rows) == 70
    assert len(fitted.held_out_scores) == 30
    studio.stop()


def test_nothing_can_be_exported_before_two_classes(tmp_path: Path) -> None:
    write_pictures(tmp_path, 3)
    studio = answered(open_studio(tmp_path))
    with pytest.raises(
        InvalidInput, match="too few labels to answer from: got labels of 0 classes"
    ):
        studio.results()
    studio.stop()


def test_files_that_are_gone_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    write_pictures(folder, 12)
    before = answered(open_studio(folder))
    names = {f"{n:04}.png": ("red", "green", "blue")[n % 3] for n in range(7)}
    before.store.label_by_name(names)
    before.stop()
    (folder / "0000.png").unlink()  # while no studio is open
    studio = answered(open_studio(folder))
    (folder / "0001.png").unlink()  # labelled
    (folder / "0011.png").unlink()
    results = studio.results()  # before anybody has looked at the files
    results.write(ResultKind.TABLE, tmp_path / "a.json")
    told = json.loads((tmp_path / "a.json").read_text())
    rows = {Path(row["file"]).name: row for row in told["answers"]}
    assert len(rows) == 12
    gone = {name: (row["label"], row["state"]) for name, row in rows.items() if row["reason"]}
    expected = {
        "0000.png": ("red", "given"),
        "0001.png": ("green", "given"),
        "0011.png": (None, "skipped"),
    }
    assert gone == expected
    assert {rows[name]["reason"] for name in gone} == {"the file is gone"}
    assert told["unreadable"] == [
        {"source": "files", "name": "0001.png", "reason": "the file is gone"},
        {"source": "files", "name": "0011.png", "reason": "the file is gone"},
        {"source": "labels", "name": "0000.png", "reason": "the file is gone"},
    ]
    (folder / "0002.png").unlink()  # in the last moment
    done = results.sort_into(tmp_path / "sorted", SortBy.COPY)
    assert [step.source.name for step in done.gone] == ["0002.png"]
    assert len(done.steps) == len(list((tmp_path / "sorted").rglob("*.png"))) == 8
    studio.stop()


def test_labels_of_rows_that_are_gone_are_told(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("x,y,label\n0,0,a\n1,1,a\n9,9,b\n8,8,b\n1,0,\n")
    answered(open_studio(table)).stop()
    table.write_text("x,y,label\n0,0,a\n1,1,a\n9,9,b\n1,0,\n")
    studio = answered(open_studio(table))
    results = studio.results()
    assert len(results.queries.records) == 4
    [told] = results.answers.unreadable
    assert (told.among, told.reason) == ("labels", "labelled before, and no longer in the table")
    studio.stop()


def test_a_file_that_cannot_be_read_goes_where_its_label_says(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    write_pictures(folder, 6)
    for name in ("0004.png", "0005.png"):
        (folder / name).write_bytes(b"not a picture")
    studio = answered(open_studio(folder))
    names = {"0000.png": "red", "0001.png": "green", "0004.png": "broken"}
    studio.apply(lambda store: store.label_by_name(names))
    done = post(make_app(studio, Access.at("127.0.0.1")), "/api/export/folders", {"by": "copy"})
    assert (tmp_path / "pictures-sorted" / "broken" / "0004.png").read_bytes() == b"not a picture"
    assert (done["done"], done["left_out"]) == (5, ["0005.png"])
    studio.stop()
