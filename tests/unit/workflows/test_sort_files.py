import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from unitail.encoders.encoder import Modality
from unitail.errors import CannotWrite, InvalidInput
from unitail.inputs.items import Items
from unitail.workflows.answers import Answer, Answers
from unitail.workflows.sort_files import (
    SortBy,
    Step,
    check_sorting,
    plan_sorting,
    remove_outdated,
    require_files,
    sort_files,
)


def _answered(
    files: Sequence[Path], labels: Sequence[str], p: float = 0.9, novelty: float = 0.1
) -> tuple[Answers, Items]:
    answers = tuple(
        Answer(
            place=place,
            name=file.name,
            label=label,
            probability=p,
            top=((label, p),),
            members=(label,),
            novelty=novelty,
        )
        for place, (file, label) in enumerate(zip(files, labels, strict=True))
    )
    result = Answers(
        answers=answers,
        unreadable=(),
        modality=Modality.IMAGE,
        encoder="some",
        examples={},
        coverage=0.9,
        joint=False,
    )
    names = tuple(file.name for file in files)
    return result, Items(items=tuple(files), names=names, modality=Modality.IMAGE)


def _files(folder: Path, *names: str) -> list[Path]:
    """Write files whose content is their path."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return [folder / name for name in names]


def _tree(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _sort(files: Sequence[Path], labels: Sequence[str], target: Path, by: SortBy) -> None:
    sort_files(plan_sorting(*_answered(files, labels), target), by)


@pytest.mark.parametrize("by", SortBy)
def test_files_go_to_the_folder_of_their_class(by: SortBy, tmp_path: Path) -> None:
    files = _files(tmp_path / "in", "1.png", "deep/1.png", "deep/2.png")
    target = tmp_path / "out"
    _sort(files, ["a", "a", "b"], target, by)
    assert _tree(target) == {
        "a/1.png": "1.png",
        "a/1 (2).png": "deep/1.png",
        "b/2.png": "deep/2.png",
    }
    assert all(file.exists() == (by is not SortBy.MOVE) for file in files)
    assert all(path.is_symlink() == (by is SortBy.LINK) for path in target.rglob("*.png"))
    assert not list(target.rglob(".*"))


@pytest.mark.parametrize("by", SortBy)
def test_nothing_is_overwritten_and_a_second_time_nothing_is_done(
    by: SortBy, tmp_path: Path
) -> None:
    files = _files(tmp_path / "in", "1.png", "2.png")
    target = tmp_path / "out"
    _files(target / "a", "1.png")
    (target / "a" / "1.png").write_text("mine")
    (target / "a" / "2.png").symlink_to("nowhere")
    for _ in range(2):
        _sort(
            [file for file in files if file.exists()],
            ["a"] * sum(map(Path.exists, files)),
            target,
            by,
        )
    assert _tree(target) == {"a/1 (2).png": "1.png", "a/1.png": "mine", "a/2 (2).png": "2.png"}
    assert (target / "a" / "2.png").is_symlink()


@pytest.mark.parametrize("by", SortBy)
def test_a_file_that_appears_meanwhile_is_not_overwritten(by: SortBy, tmp_path: Path) -> None:
    files = _files(tmp_path / "in", "1.png")
    steps = plan_sorting(*_answered(files, ["a"]), tmp_path / "out")
    _files(tmp_path / "out" / "a", "1.png")[0].write_text("mine")
    with pytest.raises(CannotWrite, match="could not be written"):
        sort_files(steps, by)
    assert _tree(tmp_path / "out") == {"a/1.png": "mine"}
    assert files[0].read_text() == "1.png"


@pytest.mark.parametrize("by", [SortBy.COPY, SortBy.MOVE])
def test_disks_without_links(by: SortBy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    files = _files(tmp_path / "in", "1.png")
    steps = plan_sorting(*_answered(files, ["a"]), tmp_path / "out")
    monkeypatch.setattr("os.link", refuse)
    sort_files(steps, by)
    assert _tree(tmp_path / "out") == {"a/1.png": "1.png"}
    assert files[0].exists() == (by is SortBy.COPY)
    again = _files(tmp_path / "in", "1.png")
    again[0].write_text("other")
    with pytest.raises(CannotWrite, match="exists"):
        sort_files(steps, by)
    assert _tree(tmp_path / "out") == {"a/1.png": "1.png"}


def test_the_doubtful_and_the_novel_are_apart(tmp_path: Path) -> None:
    (file,) = _files(tmp_path / "in", "1.png")
    for p, novelty, folder in ((0.51, 0.1, "_doubtful"), (0.99, 0.99, "_novel"), (0.9, 0.1, "a")):
        result, items = _answered([file], ["a"], p, novelty)
        (step,) = plan_sorting(result, items, tmp_path / "out")
        assert step.target == tmp_path / "out" / folder / "1.png"


def test_what_was_corrected_goes_where_the_user_said(tmp_path: Path) -> None:
    one, two = _files(tmp_path / "in", "1.png", "2.png")
    result, items = _answered([one], ["a"], p=0.5)
    steps = plan_sorting(result, replace(items, given=((two, "new"),)), tmp_path / "out")
    assert [step.target.parent.name for step in steps] == ["_doubtful", "new"]


@pytest.mark.parametrize(
    "label",
    [
        "../up",
        "/etc",
        "..",
        ".",
        "",
        ".hidden",
        "a/b\\c",
        "x\0y",
        "line\nbreak",
        "_novel",
        "ü" * 300,
    ],
)
def test_classes_of_any_name_stay_inside_and_apart(label: str, tmp_path: Path) -> None:
    files = _files(tmp_path / "in", "1.png", "2.png", "3.png")
    target = tmp_path / "out"
    _sort(files, [label, "_NOVEL", "a_b_c"], target, SortBy.COPY)
    folders = sorted(path.name for path in target.iterdir())
    assert len(folders) == 3
    assert not {name for name in folders if name.startswith(".") or name == "_novel"}
    assert sorted(_tree(target).values()) == ["1.png", "2.png", "3.png"]
    assert {path.name for path in tmp_path.iterdir()} == {"in", "out"}


def test_files_of_hostile_names(tmp_path: Path) -> None:
    names = ["-rf.png", "a b\n.png", "x" * 250 + ".png", "A.png", "a.png", "$(touch y).png"]
    files = _files(tmp_path / "in", *names)
    raw = os.fsencode(tmp_path / "in") + b"/\xff" * 1 + b"\xfe" * 220 + b".png"
    with open(raw, "wb") as file:
        file.write(b"raw")
    files.append(Path(os.fsdecode(raw)))
    _sort(files, ["c"] * len(files), tmp_path / "out", SortBy.COPY)
    sorted_names = {path.name.casefold() for path in (tmp_path / "out" / "c").iterdir()}
    assert len(sorted_names) == len(files)  # apart even where cases are not told apart
    assert sorted(_tree(tmp_path / "out").values()) == sorted([*names, "raw"])


def test_a_link_that_is_moved_still_leads_to_its_file(tmp_path: Path) -> None:
    _files(tmp_path / "in", "real.png")
    link = tmp_path / "in" / "link.png"
    link.symlink_to("real.png")
    _sort([link], ["a"], tmp_path / "out", SortBy.MOVE)
    assert (tmp_path / "out" / "a" / "link.png").read_text() == "real.png"
    assert not link.exists()
    assert (tmp_path / "in" / "real.png").exists()


def test_folders_that_are_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    for target in (tmp_path / "in", tmp_path / "in" / "deep", tmp_path / "in" / "new"):
        with pytest.raises(CannotWrite, match="which is read"):
            check_sorting(target, [tmp_path / "in"])
    check_sorting(tmp_path, [tmp_path / "in"])
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite, match="got a file; allowed: a folder"):
        check_sorting(tmp_path / "file", [])
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(CannotWrite, match="got a broken link; allowed: a folder"):
        check_sorting(tmp_path / "loop", [tmp_path / "in"])


@pytest.mark.parametrize("by", SortBy)
def test_files_that_have_vanished_are_left_out_and_reported(by: SortBy, tmp_path: Path) -> None:
    files = _files(tmp_path / "in", "1.png", "2.png", "3.png")
    steps = [Step(file, tmp_path / "out" / "a" / file.name, is_there=False) for file in files]
    files[1].unlink()
    assert sort_files(steps, by) == [steps[1]]
    assert sorted(_tree(tmp_path / "out").values()) == ["1.png", "3.png"]


def test_texts_are_not_sorted() -> None:
    with pytest.raises(InvalidInput, match="only files can be sorted: got text items"):
        require_files(Items(items=("x",), names=("x",), modality=Modality.TEXT))


def _sort_again(
    files: Sequence[Path], labels: Sequence[str], target: Path, by: SortBy = SortBy.COPY
) -> list[str]:
    """Sort, remove what is outdated, and return what was removed."""
    steps = plan_sorting(*_answered(files, labels), target)
    sort_files(steps, by)
    return [path.relative_to(target).as_posix() for path in remove_outdated(steps, target)]


def _sorted_files(target: Path) -> list[str]:
    return [name for name in _tree(target) if not name.startswith(".")]


@pytest.mark.parametrize("by", [SortBy.COPY, SortBy.LINK])
def test_sorted_again_a_file_is_in_its_new_folder_alone(by: SortBy, tmp_path: Path) -> None:
    files, target = _files(tmp_path / "in", "1.png", "2.png"), tmp_path / "out"
    assert _sort_again(files, ["a", "b"], target, by) == []
    assert _sort_again(files, ["a", "b"], target, by) == []
    assert _sort_again(files, ["a", "a"], target, by) == ["b/2.png"]
    assert _sorted_files(target) == ["a/1.png", "a/2.png"]
    assert not (target / "b").exists()
    assert _sort_again(files, ["b", "a"], target, by) == ["a/1.png"]


def test_links_to_files_that_are_gone_go_and_copies_stay(tmp_path: Path) -> None:
    for by, removed in ((SortBy.LINK, ["a/1.png"]), (SortBy.COPY, [])):
        files, target = _files(tmp_path / by, "1.png", "2.png"), tmp_path / f"sorted-{by}"
        _sort_again(files, ["a", "a"], target, by)
        files[0].unlink()
        assert _sort_again(files[1:], ["a"], target, by) == removed
    assert (tmp_path / "sorted-copy" / "a" / "1.png").read_text() == "1.png"


def test_what_users_changed_or_put_there_themselves_is_kept(tmp_path: Path) -> None:
    files, target = _files(tmp_path / "in", "1.png", "2.png", "3.png"), tmp_path / "out"
    _files(target / "a", "3.png")  # the same content, but by their own hand
    _sort_again(files, ["a", "a", "a"], target)
    (target / "a" / "2.png").write_text("retouched")
    assert _sort_again(files, ["b", "b", "b"], target) == ["a/1.png"]
    assert (target / "a" / "2.png").read_text() == "retouched"
    assert (target / "a" / "3.png").exists()


@pytest.mark.parametrize(
    "text", ["", "[1]", "{", '{"SOURCE": "/etc/hosts"}', '{"SOURCE": "../in/2.png"}', '{"a": 3}']
)
def test_a_record_by_another_hand_removes_nothing(text: str, tmp_path: Path) -> None:
    files, target = _files(tmp_path / "in", "1.png", "2.png"), tmp_path / "out"
    files[1].write_text("1.png")  # what the record names is a copy of it
    _sort_again(files[:1], ["a"], target)
    record = target / ".unitail" / "sorted.json"
    record.write_text(text.replace("SOURCE", str(files[0])))
    assert _sort_again(files[:1], ["a"], target) == []
    assert files[1].exists()
