"""Five rows of each class, then the rest of a table: `TailClassifier` on a DataFrame.

Run with `python examples/tables.py`; needs `pip install 'unitail[encoders]'`.
"""

import numpy as np
import pandas as pd
from sklearn.datasets import load_wine, make_circles
from sklearn.linear_model import LogisticRegression

from unitail import TailClassifier


def load() -> tuple[pd.DataFrame, pd.Series]:
    """Return scikit-learn's wines with a column of words and with holes, as real tables have."""
    wines, growers = load_wine(return_X_y=True, as_frame=True)
    wines["hue"] = pd.cut(wines["hue"], [0, 0.8, 1, 2], labels=["brown", "red", "violet"]).astype(
        str
    )
    holes = np.random.default_rng(0).random(wines.shape) < 0.05
    return wines.mask(holes), growers.map("grower {}".format)


def main() -> None:
    """Learn from five wines of each grower, ask about the others."""
    wines, growers = load()
    shown = growers.groupby(growers).sample(5, random_state=0).index
    rest = wines.index.difference(shown)
    for visibility in ("isolated", "joint"):
        classifier = TailClassifier(encoder="auto", visibility=visibility)
        answers = classifier.fit(wines.loc[shown], growers[shown]).predict(wines.loc[rest])
        right = (answers == growers[rest]).mean()
        print(f"{visibility}, accuracy: {right:.2f} on {len(rest)} rows")
    compare_rings()


def compare_rings() -> None:
    """Tell a ring from one around it: no line can, thresholds of both columns together do."""
    points, rings = make_circles(500, factor=0.5, noise=0.1, random_state=0)
    table = pd.DataFrame(points, columns=["east", "north"])
    shown, rest = slice(0, 60), slice(60, None)
    classifier = TailClassifier(encoder="auto").fit(table[shown], rings[shown])
    linear = LogisticRegression().fit(table[shown], rings[shown])
    print(f"two rings, accuracy: {classifier.score(table[rest], rings[rest]):.2f} on 440 rows")
    print(f"two rings, logistic regression: {linear.score(table[rest], rings[rest]):.2f}")


if __name__ == "__main__":
    main()
