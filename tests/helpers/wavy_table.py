"""A table whose classes no line tells apart: with steps, answers are others than without."""

import numpy as np
import pandas as pd


def wavy_table(rows: int = 30, seed: int = 0) -> pd.DataFrame:
    """Return numbers of one decimal, categories, gaps, and the column `label`."""
    generator = np.random.default_rng(seed)
    numbers = generator.uniform(0, 6, size=(rows, 3)).round(1)
    label = np.where(np.sin(2 * numbers[:, 0]) + 0.3 * generator.normal(size=rows) > 0, "up", "no")
    numbers[::7, 2] = np.nan
    frame = pd.DataFrame(numbers, columns=["wave", "noise", "gaps"])
    return frame.assign(kind=generator.choice(["x", "y"], rows), label=label)
