"""Tables of images, texts and numbers: all parts together compared with each part alone.

    python bench/mixed_tables.py TABLE.csv --out results/mixed_tables.md

The table has a column `label`; the other columns are read as `unitail predict` reads them. Each
episode draws classes, labelled rows and queries, the same for all ways of reading. In a shuffled
part the cells are permuted between rows, which makes it uninformative.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring.page import Page
from numpy.typing import NDArray

from unitail.encoders.cache import default_cache
from unitail.encoders.tables import TableEncoder
from unitail.estimator.classifier import TailClassifier
from unitail.framework.statistics import MeanInterval
from unitail.inputs.encode import encode
from unitail.inputs.input_encoder import MixedEncoder, TablePart
from unitail.inputs.items import LabelledItems
from unitail.inputs.mixed import fit_mixed
from unitail.inputs.read import read_labelled
from unitail.wording import markdown_table, numbered

MAX_QUERIES = 300
CELLS = "numbers and categories"
ALL = "all"
PLAIN = f"{ALL}, numbers without steps and weights"

Vectors = NDArray[np.float32]


class Table:
    """All rows with the vectors of their items; cells are encoded with each support."""

    def __init__(self, examples: LabelledItems) -> None:
        assert examples.layout is not None, "the table holds no items beside other cells"
        self.labels = np.array(examples.labels)
        self.cells: Any = examples.items[list(examples.layout.features)]  # type: ignore[call-overload]
        self.parts = fit_mixed(examples.layout, examples.items, "auto", "cpu").parts
        self.items: dict[str, Vectors] = {}
        for part in self.parts:
            if part.column is not None:
                alone = MixedEncoder([part])
                [vectors] = encode(alone, examples.items, cache=default_cache())
                self.items[part.column] = vectors.features

    def blocks(self, support: NDArray[np.int64]) -> dict[str, Vectors]:
        """Return the vectors of each part."""
        return {
            **self.items,
            CELLS: TableEncoder().fit(self.cells.iloc[support]).transform(self.cells),
        }

    def draw(self, ways: int, shots: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw labelled rows and queries."""
        generator = np.random.default_rng(seed)
        names, sizes = np.unique(self.labels, return_counts=True)
        classes = generator.permutation(names[sizes > shots])[:ways]
        rows = [generator.permutation(np.flatnonzero(self.labels == each)) for each in classes]
        queries = generator.permutation(np.concatenate([each[shots:] for each in rows]))
        return np.concatenate([each[:shots] for each in rows]), queries[:MAX_QUERIES]

    def together(self, blocks: Mapping[str, Vectors], support: NDArray[np.int64]) -> Vectors:
        """Concatenate parts as the classifier does."""
        parts = [TablePart(part.encoder, part.column) for part in self.parts]
        encoder = MixedEncoder(parts[: len(blocks)])
        encoder.join([block[support] for block in blocks.values()], len(support))
        return encoder.join(list(blocks.values()), 0)

    def ways_to_read(self, support: NDArray[np.int64], seed: int) -> dict[str, Vectors]:
        """Return the vectors of all rows for each way of reading them."""
        blocks = self.blocks(support)
        generator = np.random.default_rng(seed)
        order = generator.permutation(len(self.labels))
        shuffled = {
            f"{ALL}, {name} shuffled": self.together({**blocks, name: blocks[name][order]}, support)
            for name in self.items
        }
        return {
            **{f"{name} alone": block for name, block in blocks.items()},
            ALL: self.together(blocks, support),
            PLAIN: self.together(blocks, support),
            **shuffled,
            "one distance, equal shares": self.together(blocks, support),
            "one distance, as the encoders have them": np.concatenate(
                list(blocks.values()), axis=1
            ),
        }

    def scores(self, ways: int, shots: int, seed: int) -> dict[str, float]:
        """Return the balanced accuracy of each way of reading; "all" combines the parts."""
        support, queries = self.draw(ways, shots, seed)
        truth, scores = self.labels[queries], dict[str, float]()
        widths = [block.shape[1] for block in self.blocks(support).values()]
        each = ["columns" if name == CELLS else "none" for name in self.blocks(support)]
        classes = np.unique(truth)

        def balanced(answers: NDArray[np.str_]) -> float:
            return float(np.mean([(answers[truth == each] == each).mean() for each in classes]))

        for name, vectors in self.ways_to_read(support, seed).items():
            parts = widths if name.startswith(ALL) else None
            scale = "columns" if name == f"{CELLS} alone" else "none"
            scales = each if name.startswith(ALL) and name != PLAIN else scale
            classifier = TailClassifier(device="cpu", scale=scales, random_state=0, parts=parts)
            classifier.fit(vectors[support], self.labels[support])
            scores[name] = balanced(classifier.predict(vectors[queries]))
        return scores


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--ways", type=int, default=5)
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 5, 10])
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)  # the matrices are small
    rows = Table(read_labelled(args.table))
    page = Page(
        args.out,
        "Pictures, texts and numbers in one table",
        f"{len(rows.labels):,} rows, {args.ways} of {len(set(rows.labels))} classes in an episode,"
        f" {args.episodes} episodes; balanced accuracy in % with the half width of its 95 %"
        " interval over episodes, which are the same for all lines.",
        TABLE=args.table,
    )
    cells: dict[str, list[str]] = {}
    for shots in args.shots:
        drawn = [rows.scores(args.ways, shots, seed) for seed in range(args.episodes)]
        for name in drawn[0]:
            accuracy = MeanInterval.of([100 * each[name] for each in drawn])
            cells.setdefault(name, [name]).append(f"{accuracy:.1f}")
    page.text(
        markdown_table(
            ["read", *(f"{numbered(n, 'label')} a class" for n in args.shots)], list(cells.values())
        )
    )


if __name__ == "__main__":
    main()
