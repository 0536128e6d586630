"""Small intact inputs of every kind, in one folder, for the campaigns to corrupt."""

import io
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.banks.manifest import BankManifest
from unitail.banks.writer import BankWriter
from unitail.encoders import registry
from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.images import middle_square, read_image
from unitail.errors import MissingExtra
from unitail.estimator.classifier import TailClassifier
from unitail.learners.checkpoint import save_model
from unitail.learners.pretrained import load_shipped
from unitail.learners.registry import MODELS, build_model

CLASSES = ("hum", "hiss")
IMAGES = ("png", "jpg", "gif", "bmp", "webp", "tif", "ppm", "tga", "jp2", "avif")
SOUNDS = ("wav", "flac", "ogg", "mp3", "aiff")
WORDS = {"hum": "the engine hums along", "hiss": "a snake hisses at the cat"}
RECIPE = """[model]
preset = "tiny"
projected_dim = 16
label_dim = 8
hidden_dim = 24
layers = 2
heads = 2
mlp_dim = 32
dictionary_size = 6
[episodes]
ways = [2, 4]
shots = [1, 2]
queries = 2
tokens = 160
[sources.gaussian]
feature_dims = [8, 12]
[training]
steps = 12
learning_rate = 1e-2
checkpoint_every = 4
report_every = 2
[validation]
every = 6
episodes = 16
ways = 3
shots = [1]
queries = 2
"""
SUITE = """title = "A suite"
shots = [1]
ways = [2]
queries = 2
episodes = 4
learners = ["proto_head"]
[[groups]]
name = "all"
sets = ["maker/*"]
"""


@dataclass(frozen=True)
class Seeds:
    """A folder of intact inputs."""

    folder: Path
    images: dict[str, bytes] = field(default_factory=dict)
    sounds: dict[str, bytes] = field(default_factory=dict)
    tables: dict[str, bytes] = field(default_factory=dict)

    @property
    def csv(self) -> str:
        """A table of numbers, categories and labels."""
        return self.tables["csv"].decode()

    @classmethod
    def make(cls, folder: Path, *kinds: str) -> "Seeds":
        """Write some kinds of inputs, or all."""
        seeds = cls(folder)
        folder.mkdir(parents=True)
        writers = {
            "images": seeds._write_images,
            "sounds": seeds.write_sounds,
            "tables": seeds._write_tables,
            "sheets": seeds._write_sheets,
            "texts": seeds._write_texts,
            "banks": seeds._write_banks,
            "models": seeds._write_models,
        }
        for kind, write in writers.items():
            if not kinds or kind in kinds:
                write()
        (folder / "recipe.toml").write_text(RECIPE)
        (folder / "suite.toml").write_text(SUITE)
        return seeds

    def copy(self, name: str, target: Path) -> Path:
        """Copy a folder of the seeds."""
        return Path(shutil.copytree(self.folder / name, target))

    def _write_images(self) -> None:
        from PIL import Image

        generator = np.random.default_rng(0)
        for place, label in enumerate(CLASSES):
            for number in range(3):
                pixels = generator.integers(0, 90, (24, 24, 3), dtype=np.uint8) + 120 * place
                path = self.folder / "images" / label / f"{number}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels.astype(np.uint8)).save(path)
        pixels = generator.integers(0, 255, (24, 20, 3), dtype=np.uint8)
        for suffix in IMAGES:
            file = io.BytesIO()
            form = {"jpg": "JPEG", "tif": "TIFF", "jp2": "JPEG2000"}.get(suffix, suffix.upper())
            Image.fromarray(pixels).save(file, format=form)
            self.images[suffix] = file.getvalue()
        for mode in ("1", "L", "LA", "P", "RGBA", "I;16", "F", "CMYK"):
            file = io.BytesIO()
            form = "TIFF" if mode in ("F", "CMYK") else "PNG"
            Image.fromarray(pixels).convert("L").convert(mode).save(file, format=form)
            self.images[f"{mode}.{'tif' if form == 'TIFF' else 'png'}"] = file.getvalue()

    def write_sounds(self) -> None:
        """Write sounds of two classes, and one in each format."""
        import soundfile

        generator, time = np.random.default_rng(0), np.arange(3200) / 16_000
        for place, label in enumerate(CLASSES):
            for number in range(3):
                wave = np.sin(2 * np.pi * 200 * (1 + place) * time) * (1 - place)
                sound = 0.5 * wave + 0.3 * place * generator.normal(size=len(time))
                path = self.folder / "sounds" / label / f"{number}.wav"
                path.parent.mkdir(parents=True, exist_ok=True)
                soundfile.write(path, sound.clip(-1, 1), 16_000)
        for suffix in SOUNDS:
            file = io.BytesIO()
            soundfile.write(file, 0.3 * np.sin(900 * time), 16_000, format=suffix.upper())
            self.sounds[suffix] = file.getvalue()

    def _write_tables(self) -> None:
        import pandas as pd

        generator = np.random.default_rng(0)
        rows = [
            {
                "size": round(float(generator.normal(3 * place)), 3),
                "weight": round(float(generator.normal(-2 * place)), 3),
                "colour": ["red", "blue"][int(generator.integers(2))],
                "label": label,
            }
            for place, label in enumerate(CLASSES)
            for _ in range(5)
        ]
        frame, file = pd.DataFrame(rows), io.BytesIO()
        frame.to_parquet(file, index=False)
        self.tables["csv"] = frame.to_csv(index=False).encode()
        self.tables["jsonl"] = frame.to_json(orient="records", lines=True).encode()
        self.tables["parquet"] = file.getvalue()
        for suffix, content in self.tables.items():
            (self.folder / f"table.{suffix}").write_bytes(content)

    def _write_sheets(self) -> None:
        import pandas as pd

        file = io.BytesIO()
        pd.read_csv(self.folder / "table.csv").to_excel(file, index=False)
        self.tables["xlsx"] = file.getvalue()
        (self.folder / "table.xlsx").write_bytes(file.getvalue())

    def _write_texts(self) -> None:
        rows = [f"{text} {number},{label}" for label, text in WORDS.items() for number in range(3)]
        self.tables["texts"] = "\n".join(["text,label", *rows]).encode()
        (self.folder / "texts.csv").write_bytes(self.tables["texts"])

    def _write_banks(self) -> None:
        generator = np.random.default_rng(0)
        features = generator.normal(size=(40, 6)).astype(np.float32)
        labels = np.arange(40) % 4
        names = ["a", "b", "c", "d"]
        manifest = BankManifest(name="bank", encoder="maker", rows=40, feature_dim=6)
        with BankWriter(self.folder / "banks" / "maker" / "bank", manifest, names) as writer:
            writer.append(features + 3 * labels[:, None], labels)
        coded = {
            "q": generator.integers(0, 255, (40, 6), dtype=np.uint8),
            "scale": np.float32(2.0),
            "code": np.array("sqrt"),
            "y": labels,
            "classes": np.array(names),
        }
        (self.folder / "coded" / "maker").mkdir(parents=True)
        np.savez_compressed(self.folder / "coded" / "maker" / "set.npz", **coded)  # type: ignore[arg-type]

    def _write_models(self) -> None:
        import pandas as pd

        for name, kind in MODELS.items():
            small = [each for key, each in kind.presets.items() if key == "tiny"]
            if small:
                save_model(build_model(small[0]), self.folder / "models" / name)
        frame = pd.read_csv(io.BytesIO(self.tables["csv"]))
        labels = frame.pop("label")
        fitted = TailClassifier(encoder="auto", random_state=0).fit(frame, labels)
        fitted.save(self.folder / "classifiers" / "table")
        relational = TailClassifier(self.folder / "models" / "relational", random_state=0)
        relational.fit(frame[["size", "weight"]].to_numpy(), labels).save(
            self.folder / "classifiers" / "own"
        )


def preload(*encoders: str) -> None:
    """Load the model and some encoders once, so that every fork has them."""
    torch.cuda.is_available()  # CUDA maps more memory than forks may add, and would warn there
    for dtype in (torch.float32, torch.float64):
        load_shipped("default", dtype=dtype)
    for name in encoders:
        entry = registry.ENCODERS[name]
        try:
            made = entry.make(torch.device("cpu"))
        except MissingExtra:
            if entry.modality is not Modality.IMAGE:
                raise
            print(f"{name} is not installed: images are read the same, and made small.")
            made = Thumbnail()
        registry.ENCODERS[name] = registry.RegisteredEncoder(entry.modality, partial(_given, made))


class Thumbnail(Encoder[NDArray[np.uint8]]):
    """Replacement for an encoder without installed weights: the pixels of a small square."""

    modality = Modality.IMAGE

    def __init__(self) -> None:
        super().__init__(name="thumbnail", width=768, fingerprint="thumbnail", batch_size=32)

    def read(self, item: object) -> NDArray[np.uint8]:
        """Read as EfficientNet-Lite0 does."""
        return middle_square(read_image(item), 224)

    def embed(self, batch: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Return one pixel of every 14 x 14."""
        return np.array([each[::14, ::14].ravel() for each in batch], np.float32)


def _given(made: Encoder[Any], device: torch.device) -> Encoder[Any]:
    return made
