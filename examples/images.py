"""Classify images from four examples of each shape: `TailClassifier` on image files.

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


def draw(shape: str, generator: random.Random) -> Image.Image:
    """Draw a shape with random colour, place, size and rotation."""
    pale, dark = (tuple(generator.randint(low, low + 60) for _ in range(3)) for low in (190, 20))
    image = Image.new("RGB", (SIDE, SIDE), pale)
    size, rotation = generator.uniform(30, 50), generator.uniform(0, math.tau)
    middle = [SIDE / 2 + generator.uniform(-12, 12) for _ in range(2)]
    count = CORNERS[shape]
    corners = []
    for corner in range(count):
        radius = size * (0.4 if shape == "star" and corner % 2 else 1)
        angle = rotation + math.tau * corner / count
        corners.append((middle[0] + radius * math.cos(angle), middle[1] + radius * math.sin(angle)))
    ImageDraw.Draw(image).polygon(corners, fill=dark)
    return image


def main() -> None:
    """Write images to files, fit on four of each shape, and predict the others."""
    generator = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        paths, labels = [], []
        for number in range(10):
            for shape in CORNERS:
                paths.append(Path(folder) / f"{shape}-{number}.png")
                labels.append(shape)
                draw(shape, generator).save(paths[-1])
        num_labelled = 4 * len(CORNERS)
        classifier = TailClassifier(encoder="auto").fit(paths[:num_labelled], labels[:num_labelled])
        answers = classifier.predict(paths[num_labelled:])
    for path, answer in list(zip(paths[num_labelled:], answers, strict=True))[:4]:
        print(f"{path.name}: {answer}")
    correct = [
        answer == label for answer, label in zip(answers, labels[num_labelled:], strict=True)
    ]
    print(f"accuracy: {sum(correct) / len(correct):.2f} on {len(correct)} images")


if __name__ == "__main__":
    main()
