"""One JSON file of images, annotations and categories, as iNaturalist and COCO publish them."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unitail.configuration import parse_json
from unitail.datasets.loader import Found, OneSet, check_files_exist, shipped_list
from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class AnnotationFile(OneSet):
    """Categories by id, each with the images that are annotated with it."""

    file: str
    min_images: int = 1
    """Categories with fewer images are left out."""
    max_images: int = 10**9
    """Categories with more images are left out."""
    supercategories: tuple[str, ...] = ()
    """If given, use only the categories of these supercategories."""
    class_list: str = ""
    """If given, use only the category ids in this list, which comes with the package."""

    def read(self, root: Path, modality: Modality) -> Found:
        """Read the images of all categories that are of the right size and kind."""
        paths, names, parents, images = _read(root / self.file)
        sizes = {number: len(members) for number, members in images.items()}
        fits = [n for n in sorted(sizes) if self.min_images <= sizes[n] <= self.max_images]
        wanted = (
            [int(number) for number in shipped_list(self.class_list)] if self.class_list else []
        )
        chosen = [
            number
            for number in fits
            if (not wanted or number in wanted)
            and (not self.supercategories or parents[number] in self.supercategories)
        ]
        items: list[Path | str] = []
        labels: list[str] = []
        for number in chosen:
            members = sorted(images[number])
            items += [root / paths[image] for image in members]
            labels += [names[number]] * len(members)
        check_files_exist(items, root)
        left_out = {
            "classes of too few or too many images": len(sizes) - len(fits),
            "classes of other splits": len(fits) - len(chosen),
        }
        absent = [str(number) for number in wanted if number not in chosen]
        return Found(items, labels, {key: n for key, n in left_out.items() if n}, absent)


def _read(
    path: Path,
) -> tuple[dict[int, str], dict[int, str], dict[int, str], dict[int, set[int]]]:
    """Return paths by image, and names, supercategories and images by category."""
    try:
        table: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
        paths = {int(image["id"]): str(image["file_name"]) for image in table["images"]}
        categories = table["categories"]
        names = {int(category["id"]): str(category["name"]) for category in categories}
        parents = {
            int(category["id"]): str(category.get("supercategory", "")) for category in categories
        }
        images: dict[int, set[int]] = defaultdict(set)
        for annotation in table["annotations"]:
            image, category = int(annotation["image_id"]), int(annotation["category_id"])
            _ = paths[image], names[category]
            images[category].add(image)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{path} cannot be read",
            got=f"{type(error).__name__}: {error}",
            allowed="a JSON file with consistent images, annotations and categories",
            remedy="Fetch the file again, or name the folder that holds it with --root.",
        ) from error
    return paths, names, parents, dict(images)
