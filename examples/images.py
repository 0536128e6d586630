"""Four examples of a shape, then new images of it: `TailClassifier` on image files.

Run with `python examples/images.py`; needs `pip install 'unitail[offline]'`.
"""

import math
import random
import tempfile
from pathlib import Path

from PIL import Image, ImageDraw

from unitail import TailClassifier

CORNERS = {"triangle": 3, "square": 4, "star": 10, "disc": 60}
SIDE = 128


def draw(shape: str, chance: random.Random) -> Image.Image:
    """Draw a shape of any colour, place, size and rotation."""
    pale, dark = (tuple(chance.randint(low, low + 60) for _ in range(3)) for low in (190, 20))
    image = Image.new("RGB", (SIDE, SIDE), pale)
    size, turn = chance.uniform(30, 50), chance.uniform(0, math.tau)
    middle = [SIDE / 2 + chance.uniform(-12, 12) for _ in range(2)]
    count = CORNERS[shape]
    corners = []
    for corner in range(count):
        reach = size * (0.4 if shape == "star" and corner % 2 else 1)
        angle = turn + math.tau * corner / count
        corners.append((middle[0] + reach * math.cos(angle), middle[1] + reach * math.sin(angle)))
    ImageDraw.Draw(image).polygon(corners, fill=dark)
    return image


def main() -> None:
    """Write images to files, learn from four of each shape, ask about the others."""
    chance = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        paths, labels = [], []
        for number in range(10):
            for shape in CORNERS:
                paths.append(Path(folder) / f"{shape}-{number}.png")
                labels.append(shape)
                draw(shape, chance).save(paths[-1])
        shown = 4 * len(CORNERS)
        classifier = TailClassifier(encoder="auto").fit(paths[:shown], labels[:shown])
        answers = classifier.predict(paths[shown:])
    for path, answer in list(zip(paths[shown:], answers, strict=True))[:4]:
        print(f"{path.name}: {answer}")
    right = [answer == label for answer, label in zip(answers, labels[shown:], strict=True)]
    print(f"accuracy: {sum(right) / len(right):.2f} on {len(right)} images")


if __name__ == "__main__":
    main()
