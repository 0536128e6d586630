"""Each data set of the catalogue, read from a miniature in its real layout."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers import miniatures as mini
from unitail.datasets.catalogue import SHAPES, catalogue, entry_of_bank, find_entry
from unitail.datasets.loader import shipped_list
from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput, UserError

Make = Callable[[Path], None]


def read(root: Path, name: str, split: str = "") -> dict[str, str]:
    """Read a miniature: the label of each path (or text)."""
    entry = find_entry(name)
    chosen = entry.split(split)
    [part] = entry.parts(root, chosen)
    contents = entry.read(part, chosen, any_version=True)
    keys = [
        item.relative_to(part.root).as_posix() if isinstance(item, Path) else item
        for item in contents.items
    ]
    assert len(set(keys)) == len(keys) == len(contents.labels)
    return dict(zip(keys, contents.labels, strict=True))


def _meta_inat(root: Path) -> None:
    """Classes 2 and 15 are on the list, 7 is not; one of 49 and one of 1001 images are out."""
    first, second, third, *_ = map(int, shipped_list("meta_inat_test"))
    sizes = {first: 50, second: 49, third: 1000, 7_000_000: 60}
    mini.inat(root, sizes, dict.fromkeys(sizes, "Aves"))


def _tiered_inat(root: Path) -> None:
    kinds = {1: "Insecta", 2: "Arachnida", 3: "Aves", 4: "Insecta"}
    mini.inat(root, {1: 50, 2: 51, 3: 50, 4: 1001}, kinds)


TIERED = shipped_list("tiered_imagenet_test")[:2]
CASES: list[tuple[str, str, Make, dict[str, str]]] = [
    (
        "imagenet",
        "",
        mini.imagenet,
        {
            f"train/{name}/{name}_{number}.JPEG": name
            for name in ("n01440764", "n01443537")
            for number in (1, 2)
        },
    ),
    (
        "tiered_imagenet",
        "",
        lambda root: mini.imagenet(root, *TIERED, "n02012849"),
        {f"train/{name}/{name}_{number}.JPEG": name for name in TIERED for number in (1, 2)},
    ),
    (
        "cifar_fs",
        "",
        mini.cifar_fs,
        {f"data/{name}/{name}_s_00000{n}.png": name for name in ("baby", "bed") for n in (1, 2)},
    ),
    (
        "mini_imagenet",
        "",
        mini.mini_imagenet,
        {
            "images/n0193011200000001.jpg": "n01930112",
            "images/n0193011200000004.jpg": "n01930112",
            "images/n0198127600000001.jpg": "n01981276",
        },
    ),
    (
        "pascal_voc",
        "",
        mini.pascal_voc,
        {"JPEGImages/2007_000001.jpg": "dog", "JPEGImages/2007_000002.jpg": "cow"},
    ),
    (
        "cub200",
        "",
        mini.cub200,
        {
            "images/003.Bird_3/b4.jpg": "003.Bird_3",
            "images/003.Bird_3/b1.jpg": "003.Bird_3",
            "images/001.Bird_1/b2.jpg": "001.Bird_1",
            "images/007.Bird_7/b3.jpg": "007.Bird_7",
        },
    ),
    (
        "cub200",
        "test",
        mini.cub200,
        {
            "images/003.Bird_3/b4.jpg": "003.Bird_3",
            "images/003.Bird_3/b1.jpg": "003.Bird_3",
            "images/007.Bird_7/b3.jpg": "007.Bird_7",
        },
    ),
    (
        "aircraft",
        "",
        mini.aircraft,
        {
            "data/images/0000001.jpg": "DHC-8-100",
            "data/images/0000002.jpg": "737-200",
            "data/images/0000003.jpg": "F/A-18",
            "data/images/0000004.jpg": "MD-80",
        },
    ),
    (
        "aircraft",
        "test",
        mini.aircraft,
        {"data/images/0000001.jpg": "DHC-8-100", "data/images/0000004.jpg": "MD-80"},
    ),
    (
        "cxr",
        "",
        lambda root: mini.medimeta(root, "disease labels", ["Mass", "Mass|Edema", "", "Hernia"]),
        {"images/000000.tiff": "Mass", "images/000003.tiff": "Hernia"},
    ),
    (
        "paintings",
        "",
        mini.paintings,
        {
            "images/ABC_one.jpg": "bird",
            "images/ABC_two.jpg": "diningtable",
            "images/ABC_four.jpg": "dog",
            "images/ABC_five.jpg": "sheep",
        },
    ),
    (
        "paintings",
        "test",
        mini.paintings,
        {"images/ABC_two.jpg": "diningtable", "images/ABC_five.jpg": "sheep"},
    ),
    ("imdb", "", mini.imdb, {"test/neg/test_1.txt": "neg", "test/pos/test_1.txt": "pos"}),
    ("imdb", "train", mini.imdb, {"train/neg/train_1.txt": "neg", "train/pos/train_1.txt": "pos"}),
    (
        "gtzan",
        "",
        lambda root: mini.touch(root, "blues/blues.00000.au", "jazz/jazz.00001.wav", "jazz/a.txt"),
        {"blues/blues.00000.au": "blues", "jazz/jazz.00001.wav": "jazz"},
    ),
]


@pytest.mark.parametrize(
    ("name", "split", "make", "labels"), CASES, ids=[f"{case[0]} {case[1]}" for case in CASES]
)
def test_a_miniature_is_read_item_by_item(
    tmp_path: Path, name: str, split: str, make: Make, labels: dict[str, str]
) -> None:
    make(tmp_path)
    assert read(tmp_path, name, split) == labels


@pytest.mark.parametrize("in_its_folder", [True, False])
def test_the_folder_that_the_archive_unpacks_to_is_found(
    tmp_path: Path, in_its_folder: bool
) -> None:
    mini.cub200(tmp_path / "CUB_200_2011" if in_its_folder else tmp_path)
    assert len(read(tmp_path, "cub200")) == 4


def test_classes_of_inaturalist_are_those_on_the_list_and_of_the_right_size(tmp_path: Path) -> None:
    _meta_inat(tmp_path)
    first, _, third, *_ = map(int, shipped_list("meta_inat_test"))
    labels = list(read(tmp_path, "meta_inat").values())
    assert {name: labels.count(name) for name in labels} == {
        f"species {first}": 50,
        f"species {third}": 1000,
    }


def test_tiered_classes_are_insects_and_arachnids(tmp_path: Path) -> None:
    _tiered_inat(tmp_path)
    labels = list(read(tmp_path, "tiered_meta_inat").values())
    assert {name: labels.count(name) for name in labels} == {"species 1": 50, "species 2": 51}


def test_a_split_of_one_class_is_refused(tmp_path: Path) -> None:
    mini.medimeta(tmp_path, "disease class", ["CNV", "CNV", "DME", "CNV", "NORMAL"])
    with pytest.raises(InvalidInput, match=r"oct has too few classes in .*: got DME; allowed: 2"):
        read(tmp_path, "oct", "test")


@pytest.mark.parametrize(
    ("name", "task"), [("cxr", "disease labels"), ("oct", "disease class"), ("pbc", "cell class")]
)
def test_splits_of_medimeta_are_those_of_its_column(tmp_path: Path, name: str, task: str) -> None:
    mini.medimeta(tmp_path, task, [*"aabbca"])
    assert "".join(read(tmp_path, name).values()) == "aabbca"
    assert read(tmp_path, name, "test") == {"images/000002.tiff": "b", "images/000005.tiff": "a"}


def test_collections_are_a_data_set_for_each_folder_and_task(tmp_path: Path) -> None:
    for name in ("cxr", "oct", "pbc", "pneumonia", "aml", "crc", "derm"):
        mini.medimeta(tmp_path / name, "tissue class", ["a", "b", "c", "d"])
    entry = find_entry("medimeta")
    parts = entry.parts(tmp_path, entry.split())
    names = [entry.bank_name(entry.split(), part) for part in parts]
    assert names == ["medimeta_crc_tissue_class", "medimeta_derm_tissue_class"]
    contents = entry.read(parts[0], entry.split())
    places = [f"crc/images/00000{number}.tiff" for number in range(4)]
    assert list(contents.items) == [tmp_path / place for place in places]
    assert list(contents.labels) == ["a", "b", "c", "d"]
    train = entry.split("train")
    assert list(entry.read(entry.parts(tmp_path, train)[0], train).labels) == ["a", "d"]


def test_meta_album_is_read_as_its_info_says(tmp_path: Path) -> None:
    for name, columns in (("BRD_Mini", ("FILE_NAME", "CATEGORY")), ("X", ("photo", "kind"))):
        content = [("1.jpg", "owl", "s"), ("2.jpg", "gull", "s")]
        mini.rows(tmp_path / name / "labels.csv", (*columns, "SUPER_CATEGORY"), content)
        mini.touch(tmp_path / name, "images/1.jpg", "images/2.jpg")
    info = '{"image_column_name": "photo", "category_column_name": "kind"}'
    (tmp_path / "X" / "info.json").write_text(info)
    entry = find_entry("meta_album")
    parts = entry.parts(tmp_path, entry.split())
    assert [part.name for part in parts] == ["brd_mini", "x"]
    for part in parts:
        assert list(entry.read(part, entry.split()).labels) == ["owl", "gull"]


def test_another_version_is_reported_unless_it_is_wanted(tmp_path: Path) -> None:
    mini.cub200(tmp_path)
    entry = find_entry("cub200")
    [part] = entry.parts(tmp_path, entry.split())
    message = r"another version of cub200, or incomplete: got 3 classes.*allowed: 200.*--any-ver"
    with pytest.raises(InvalidInput, match=message):
        entry.read(part, entry.split())
    mini.imagenet(tmp_path / "i", *TIERED, "n02012849")
    tiered = find_entry("tiered_imagenet")
    [part] = tiered.parts(tmp_path / "i", tiered.split())
    with pytest.raises(InvalidInput, match=r"classes of tiered_imagenet are missing: got 158 with"):
        tiered.read(part, tiered.split())


def test_names_and_splits_that_are_not_there_are_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"perhaps you meant cub200: got cub20;.*`unitail encode`"):
        find_entry("cub20")
    with pytest.raises(UserError, match="cub200 has no such split: got val; allowed: all, test"):
        find_entry("cub200").split("val")
    with pytest.raises(InvalidInput, match="none is not a folder: got no such folder"):
        find_entry("cub200").parts(tmp_path / "none", find_entry("cub200").split())


def test_every_entry_says_all_that_a_user_needs() -> None:
    for entry in catalogue().values():
        assert all((entry.title, entry.role, entry.source, entry.licence, entry.layout)), entry.name
        assert all(split.about for split in entry.splits)
        assert entry.modality in Modality
    kinds = {type(split.shape) for entry in catalogue().values() for split in entry.splits}
    assert kinds == set(SHAPES.values())  # no shape that nothing uses


@pytest.mark.parametrize(
    ("name", "classes", "digest"),
    [
        ("tiered_imagenet_test", 160, "d168485c0b36dae9"),
        ("meta_inat_test", 227, "afef2b882f399b5f"),
    ],
)
def test_class_lists_are_those_that_were_published(name: str, classes: int, digest: str) -> None:
    """Hashes were taken when the lists had been compared with the authors' files."""
    listed = shipped_list(name)
    assert len(set(listed)) == classes
    assert hashlib.sha256("\n".join(listed).encode()).hexdigest().startswith(digest)


def test_banks_lead_back_to_their_entry() -> None:
    assert entry_of_bank("cub200-test") is find_entry("cub200")
    assert entry_of_bank("nothing") is None
