"""Classify the rows of a table from five rows of each class: `TailClassifier` on a DataFrame.

Run with `python examples/tables.py`; needs `pip install 'unitail[encoders]'`.
"""

import numpy as np
import pandas as pd
from sklearn.datasets import load_wine, make_circles
from sklearn.linear_model import LogisticRegression

from unitail import TailClassifier


def load() -> tuple[pd.DataFrame, pd.Series]:
    """Return scikit-learn's wines with a text column and missing values, as real tables have."""
    wines, growers = load_wine(return_X_y=True, as_frame=True)
    wines["hue"] = pd.cut(wines["hue"], [0, 0.8, 1, 2], labels=["brown", "red", "violet"]).astype(
        str
    )
    missing = np.random.default_rng(0).random(wines.shape) < 0.05
    return wines.mask(missing), growers.map("grower {}".format)


def main() -> None:
    """Fit on five wines of each grower, and predict the others."""
    wines, growers = load()
    labelled = growers.groupby(growers).sample(5, random_state=0).index
    unlabelled = wines.index.difference(labelled)
    for visibility in ("isolated", "joint"):
        classifier = TailClassifier(encoder="auto", visibility=visibility)
        classifier.fit(wines.loc[labelled], growers[labelled])
        answers = classifier.predict(wines.loc[unlabelled])
        accuracy = (answers == growers[unlabelled]).mean()
        print(f"{visibility}, accuracy: {accuracy:.2f} on {len(unlabelled)} rows")
    compare_rings()


def compare_rings() -> None:
    """Separate two concentric rings, which no linear classifier can do."""
    points, rings = make_circles(500, factor=0.5, noise=0.1, random_state=0)
    table = pd.DataFrame(points, columns=["east", "north"])
    labelled, unlabelled = slice(0, 60), slice(60, None)
    classifier = TailClassifier(encoder="auto").fit(table[labelled], rings[labelled])
    linear = LogisticRegression().fit(table[labelled], rings[labelled])
    points, truth = table[unlabelled], rings[unlabelled]
    print(f"two rings, accuracy: {classifier.score(points, truth):.2f} on {len(points)} rows")
    print(f"two rings, logistic regression: {linear.score(points, truth):.2f}")


if __name__ == "__main__":
    main()
