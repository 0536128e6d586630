import errno
import os
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput
from unitail.inputs.items import ReadOptions
from unitail.inputs.read import read_labelled, read_unlabelled


def _touch(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return folder


def test_subfolders_are_classes_and_order_depends_on_names_alone(tmp_path: Path) -> None:
    _touch(tmp_path, "dog/2.PNG", "cat/b.jpg", "dog/1.webp", "cat/deep er/ä.jpeg")
    examples = read_labelled(tmp_path)
    assert examples.modality is Modality.IMAGE
    assert examples.names == ("cat/b.jpg", "cat/deep er/ä.jpeg", "dog/1.webp", "dog/2.PNG")
    assert examples.labels == ("cat", "cat", "dog", "dog")
    assert examples.classes == ("cat", "dog")
    assert examples.items == tuple(tmp_path / name for name in examples.names)
    assert examples.ignored == ()


@pytest.mark.parametrize(("suffix", "modality"), [("wav", Modality.AUDIO), ("txt", Modality.TEXT)])
def test_the_modality_is_recognised(suffix: str, modality: Modality, tmp_path: Path) -> None:
    _touch(tmp_path, f"a/1.{suffix}", f"b/2.{suffix}")
    assert read_labelled(tmp_path).modality is modality
    assert read_unlabelled([tmp_path]).modality is modality


def test_skipped_files_are_reported(tmp_path: Path) -> None:
    _touch(tmp_path, "a/1.png", "b/1.png", "b/.2.png", "b/.git/3.png", "b/notes.pdf", "read.txt")
    (tmp_path / "empty").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "b" / ".unitail").mkdir()  # a studio's own
    examples = read_labelled(tmp_path)
    assert examples.names == ("a/1.png", "b/1.png")
    assert examples.unlabelled == ("1 file outside the class folders (read.txt)",)
    assert examples.ignored == (
        "1 class folder without image files (empty)",
        "1 file of other kinds (.pdf)",
        "2 hidden files",
    )


def test_several_kinds_of_files_need_a_choice(tmp_path: Path) -> None:
    _touch(tmp_path, *(f"a/{n}.png" for n in range(3)), "b/1.png", "b/1.wav", "a/1.wav")
    message = r"got 2 audio, 4 image; .* Choose one: --modality audio or --modality image\.$"
    with pytest.raises(InvalidInput, match=message):
        read_labelled(tmp_path)
    with pytest.raises(InvalidInput, match=message):
        read_unlabelled([tmp_path])
    examples = read_labelled(tmp_path, ReadOptions(modality=Modality.AUDIO))
    assert examples.names == ("a/1.wav", "b/1.wav")
    assert examples.ignored == ("4 files of other kinds (.png)",)
    assert read_unlabelled([tmp_path], ReadOptions(modality=Modality.AUDIO)).names == examples.names
    assert read_unlabelled([tmp_path], like=examples).names == examples.names


def test_links_are_followed_and_loops_end(tmp_path: Path) -> None:
    store, support = (
        _touch(tmp_path / "store", "1.png"),
        _touch(tmp_path / "s", "a/1.png", "b/1.png"),
    )
    (support / "b" / "more").symlink_to(store)
    (support / "b" / "loop").symlink_to(support)
    (support / "a" / "self").symlink_to(support / "a" / "self")
    examples = read_labelled(support)
    assert examples.names == ("a/1.png", "b/1.png", "b/more/1.png")
    assert [note.split("/")[-1] for note in examples.ignored] == [
        "self: not a file that can be opened",
        "loop: a link to a folder that was searched already",
    ]
    assert read_unlabelled([support]).names == (
        "a/1.png",
        "b/1.png",
        "b/more/1.png",
    )


def test_a_class_folder_that_leads_back_has_no_examples(tmp_path: Path) -> None:
    _touch(tmp_path, "a/1.png", "b/1.png")
    (tmp_path / "c").symlink_to(tmp_path)
    examples = read_labelled(tmp_path)
    assert examples.classes == ("a", "b")
    assert "1 class folder without image files (c)" in examples.ignored


def test_what_keeps_a_folder_from_being_a_class_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _touch(tmp_path, "a/1.png", "b/1.png")
    opened = os.scandir

    def closed(path: str) -> Any:  # noqa: ANN401 - as root nothing is closed
        if Path(path).name == "b":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return opened(path)

    monkeypatch.setattr(os, "scandir", closed)
    with pytest.raises(
        InvalidInput, match=r"one class only: got 'a'; .*/b: Permission denied; all"
    ):
        read_labelled(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="such names need bytes")
def test_names_of_any_bytes_can_be_shown(tmp_path: Path) -> None:
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        (tmp_path / label / os.fsdecode(b"\xff\x1b[2J.png")).write_bytes(b"")
    examples = read_labelled(tmp_path)
    assert examples.names[0] == "a/\ufffd\ufffd[2J.png"
    assert examples.items[0].is_file()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "holds no class folders: got 0 files; allowed: a subfolder for each class"),
        (["1.png", "2.png"], "holds no class folders: got 2 files; .* named after the class"),
        (["a/1.pdf", "b/"], "holds no images, sounds or texts: got no such file; .*image: .jpg"),
        (["a/1.png"], "holds one class only: got 'a'; allowed: two classes or more"),
        (["a/1.png", "b/1.pdf"], "holds one class only: got 'a'"),
    ],
)
def test_folders_that_are_no_support(names: list[str], message: str, tmp_path: Path) -> None:
    _touch(tmp_path, *(name for name in names if not name.endswith("/")))
    with pytest.raises(InvalidInput, match=message):
        read_labelled(tmp_path)


def test_a_modality_that_is_not_there(tmp_path: Path) -> None:
    _touch(tmp_path, "a/1.png", "b/1.png")
    with pytest.raises(InvalidInput, match=r"no audio files: got 2 files of other kinds"):
        read_labelled(tmp_path, ReadOptions(modality=Modality.AUDIO))
    with pytest.raises(
        InvalidInput, match=r"no table files: .*allowed: a table file, not a folder"
    ):
        read_unlabelled([tmp_path], ReadOptions(modality=Modality.TABLE))


@pytest.mark.parametrize("name", ["none", "thesis.pdf", "1.png"])
def test_other_files_are_no_support(name: str, tmp_path: Path) -> None:
    _touch(tmp_path, "thesis.pdf", "1.png")
    got = "no such file or folder" if name == "none" else "another file"
    with pytest.raises(InvalidInput, match=f"does not hold labelled examples: got {got}"):
        read_labelled(tmp_path / name)


def test_folders_and_files_keep_the_order_given(tmp_path: Path) -> None:
    _touch(tmp_path, "q/2.png", "q/1.png", "z.png", "a.png")
    queries = read_unlabelled([tmp_path / "z.png", tmp_path / "q", tmp_path / "a.png"])
    expected = ("z.png", "q/1.png", "q/2.png", "a.png")
    assert queries.names == tuple(f"{tmp_path}/{name}" for name in expected)
    assert len(queries) == 4


def test_a_named_file_may_have_any_suffix_if_the_modality_is_known(tmp_path: Path) -> None:
    _touch(tmp_path, "scan.raw2")
    assert read_unlabelled([tmp_path / "scan.raw2"], ReadOptions(modality=Modality.IMAGE)).names
    with pytest.raises(InvalidInput, match=r"scan\.raw2 cannot be an item: got another kind"):
        read_unlabelled([tmp_path / "scan.raw2"])
    with pytest.raises(InvalidInput, match="got no such file or folder"):
        read_unlabelled([tmp_path / "none.png"], ReadOptions(modality=Modality.IMAGE))


def test_inputs_of_several_kinds_are_refused(tmp_path: Path) -> None:
    _touch(tmp_path, "1.png", "1.wav")
    with pytest.raises(InvalidInput, match="items of several kinds: got audio, image"):
        read_unlabelled([tmp_path / "1.png", tmp_path / "1.wav"])
    with pytest.raises(InvalidInput, match="there is no input"):
        read_unlabelled([])


def test_the_first_of_several_pages_is_read_with_a_note(tmp_path: Path) -> None:
    for label, pages in (("a", 3), ("b", 1)):
        (tmp_path / label).mkdir()
        first, *more = [Image.new("L", (4, 4), page) for page in range(pages)]
        first.save(tmp_path / label / "scan.tif", save_all=True, append_images=more)
    (tmp_path / "b" / "broken.tiff").write_bytes(b"II*")
    said = "only the first page is read of 1 file with several (scan.tif)"
    examples = read_labelled(tmp_path)
    assert examples.guesses == (said,)
    assert read_unlabelled([tmp_path / "a"], like=examples).guesses == (said,)
    assert read_unlabelled([tmp_path / "b"], like=examples).guesses == ()


def test_a_missing_path_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as error:
        read_unlabelled([tmp_path / "nope"])
    assert "nope does not exist: got no such file or folder;" in str(error.value)
    assert ".jpg" not in str(error.value)


def test_subfolders_of_a_class_are_no_classes_and_a_note_says_so(tmp_path: Path) -> None:
    for name in ("animals/bird/a.txt", "animals/fish/b.txt", "plants/c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    examples = read_labelled(tmp_path)
    assert examples.classes == ("animals", "plants")
    assert examples.guesses == (
        "subfolders of a class folder are not classes of their own (animals)",
    )
