"""Miniature copies of data sets in the layout of the real ones; items are empty files."""

import csv
import json
from collections.abc import Iterable, Sequence
from itertools import cycle
from pathlib import Path


def touch(root: Path, *names: str) -> None:
    """Make empty files."""
    for folder in {(root / name).parent for name in names}:
        folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        open(root / name, "w").close()  # faster than Path.touch, for a thousand files


def lines(path: Path, *texts: str) -> None:
    """Write a text file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(texts) + "\n")


def rows(path: Path, header: Sequence[str], content: Iterable[Sequence[str]]) -> None:
    """Write a CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *content])


def imagenet(root: Path, *synsets: str) -> None:
    for synset in synsets or ("n01440764", "n01443537"):
        touch(root, *(f"train/{synset}/{synset}_{number}.JPEG" for number in (1, 2)))
    touch(root, "train/notes.txt", "train/n01440764/readme.txt")


def cifar_fs(root: Path) -> None:
    touch(
        root,
        *(
            f"data/{name}/{name}_s_00000{n}.png"
            for name in ("apple", "baby", "bed")
            for n in (1, 2)
        ),
    )
    lines(root / "splits/bertinetto/test.txt", "baby", "bed")
    lines(root / "splits/bertinetto/train.txt", "apple")


def mini_imagenet(root: Path) -> None:
    names = ["n0193011200000001.jpg", "n0193011200000004.jpg", "n0198127600000001.jpg"]
    touch(root, *(f"images/{name}" for name in (*names, "n0153282900000005.jpg")))
    rows(root / "test.csv", ("filename", "label"), [(name, name[:9]) for name in names])
    rows(root / "train.csv", ("filename", "label"), [("n0153282900000005.jpg", "n01532829")])


VOC = [
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa"),
    *("train", "tvmonitor"),
]


def pascal_voc(root: Path) -> None:
    """Six images: dog; cow; both; dog, difficult cow; difficult cow alone; nothing."""
    flags = {"dog": "1 -1 1 1 -1 -1", "cow": "-1 1 1 0 0 -1"}
    items = [f"2007_00000{number}" for number in range(1, 7)]
    for name in VOC:
        own = flags.get(name, "-1 -1 -1 -1 -1 -1").split()
        pairs = [f"{item} {flag:>2}" for item, flag in zip(items, own, strict=True)]
        lines(root / f"ImageSets/Main/{name}_trainval.txt", *pairs)
    touch(root, *(f"JPEGImages/{item}.jpg" for item in items))


def cub200(root: Path) -> None:
    """Class numbers, image numbers and the order of lines all differ."""
    lines(root / "classes.txt", *(f"{n} {n:03}.Bird_{n}" for n in range(1, 9)))
    paths = {
        number: f"{n:03}.Bird_{n}/b{number}.jpg" for number, n in ((1, 3), (2, 1), (3, 7), (4, 3))
    }
    lines(root / "images.txt", *(f"{number} {path}" for number, path in paths.items()))
    lines(root / "image_class_labels.txt", "4 3", "1 3", "2 1", "3 7")
    touch(root, *(f"images/{path}" for path in paths.values()))


def aircraft(root: Path) -> None:
    """Variants with spaces and slashes in their names."""
    names = ("707-320", "737-200", "A340-200", "DHC-8-100", "F/A-18", "Il-76", "L-1011", "MD-80")
    lines(root / "data/variants.txt", *names)
    lines(root / "data/images_variant_trainval.txt", "0000001 DHC-8-100", "0000002 737-200")
    lines(root / "data/images_variant_test.txt", "0000003 F/A-18", "0000004 MD-80")
    touch(root, *(f"data/images/000000{number}.jpg" for number in range(1, 5)))


def inat(root: Path, sizes: dict[int, int], parents: dict[int, str]) -> None:
    """Categories of these sizes; every image has two boxes, which count once."""
    images, annotations = [], []
    for category, size in sizes.items():
        for _ in range(size):
            number = len(images) + 10
            images.append({"id": number, "file_name": f"train_val_images/{category}/{number}.jpg"})
            box = {"image_id": number, "category_id": category}
            annotations += [box, box]
    categories = [{"id": n, "name": f"species {n}", "supercategory": parents[n]} for n in sizes]
    table = {"images": images, "annotations": annotations, "categories": categories}
    touch(root, *(each["file_name"] for each in images))
    (root / "train_2017_bboxes.json").write_text(json.dumps(table))


def medimeta(root: Path, task: str, labels: Sequence[str]) -> None:
    """One image for each label, of train, val and test in turn."""
    names = [f"images/{number:06}.tiff" for number in range(len(labels))]
    content = [
        (name, split, "0", "x.png", label)
        for name, split, label in zip(names, cycle(("train", "val", "test")), labels, strict=False)
    ]
    header = ("filepath", "split", f"tasks/{task}", "original_filepath", task)
    rows(root / "annotations.csv", header, content)
    touch(root, *names)


def paintings(root: Path) -> None:
    """As the file is: an empty row before each, quoted cells, and some rows without their image."""
    where = "https://d3d00swyhr67nd.cloudfront.net/w1200h1200/collection/ABC/ABC_"
    content = [
        (f"{where}one.jpg", "https://artuk.org/1", "'train'", "' bird'"),
        (f"{where}two.jpg", "https://artuk.org/2", "'test'", "' dining-table'"),
        (f"{where}three.jpg", "https://artuk.org/3", "'test'", "' bird boat'"),
        (f"{where}four.jpg", "https://artuk.org/4", "'validation'", "' dog'"),
        ("N/A", "https://artuk.org/5", "'test'", "' boat'"),
        (f"{where}blank.jpg", "https://artuk.org/6", "'test'", "' boat'"),
        (f"{where}blank.jpg", "https://artuk.org/7", "'train'", "' cow'"),
        (f"{where}five.jpg", "https://artuk.org/8", "'test'", "' sheep'"),
    ]
    header = ("Image URL", "Web page URL", "Subset", "Labels")
    spaced = [row for each in content for row in (("",) * 4, each)]
    rows(root / "painting_dataset_2021.csv", header, spaced)
    images = ("one", "two", "three", "four", "five", "blank")
    touch(root, *(f"images/ABC_{name}.jpg" for name in images))


def imdb(root: Path) -> None:
    for split in ("train", "test"):
        touch(root, *(f"{split}/{name}/{split}_1.txt" for name in ("neg", "pos", "unsup")))


def intents(root: Path) -> None:
    """Four files whose texts say where they are from, two as tables and two as folders."""
    labels = ("lost", "card", "lost")
    for name in ("test", "train_5", "train_10", "train"):
        texts = [f"{text}, {name}" for text in ("Lost it", "A card", "Gone")]
        if name in ("test", "train_5"):
            content = list(zip(texts, labels, strict=True))
            rows(root / f"{name}.csv", ("text", "category"), content)
        else:
            (root / name).mkdir()
            (root / name / "seq.in").write_text("\n".join(texts))
            (root / name / "label").write_text("\n".join(labels))
