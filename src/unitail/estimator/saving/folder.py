"""Saving and loading fitted classifiers: rows as safetensors, the rest as JSON, no pickle.

The folder of a classifier with the user's own model holds the model's files, too, so it is also a
model folder; a shipped model is referred to by hash.
"""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from unitail.configuration import parse_json
from unitail.encoders.cache import AUTO
from unitail.encoders.encoder import Encoder
from unitail.errors import CannotWrite, InvalidCheckpoint, UserError, WeightWarning
from unitail.estimator.prediction_sets import SavedScores
from unitail.estimator.rows import Rows, no_places
from unitail.estimator.saving.card import card
from unitail.estimator.saving.content import (
    COUNTS,
    PLAIN,
    POOL,
    REPRESENTATIVE,
    WEIGHTLESS,
    WEIGHTS,
    check_arrays,
    column_names,
    labels_from_table,
)
from unitail.files import followed, fresh_folder, readable_folder, regular
from unitail.learners.checkpoint import load_model, write_model
from unitail.learners.parts import checked_parts
from unitail.learners.pretrained import fingerprint, shipped_folder, shipped_names
from unitail.nn.episode_model import AnyModel

CLASSIFIER_FILE = "classifier.json"
ROWS_FILE = "support.safetensors"
CARD_FILE = "README.md"
SCORES = "held_out_scores"
FORMAT = 5
READABLE = (2, 3, 4, FORMAT)
"""Formats that can be read; 2 has no card and no scores, 3 no pool and weights, 4 has counts beside
the weights, and not the places of rows of weight zero."""
VERSIONS = {
    "unitail": import_module("unitail").__version__,  # its __init__ imports higher layers
    "torch": str(torch.__version__),
    "numpy": np.__version__,
    "scikit-learn": sklearn.__version__,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class SavedClassifier:
    """The content of a saved classifier."""

    rows: Rows
    classes: NDArray[Any]
    seed: int
    parameters: dict[str, Any]
    """The constructor's parameters, except `model`."""
    feature_names: list[str] | None
    model: AnyModel | str
    """A model, or the name of a shipped one."""
    inputs: dict[str, Any] | None
    """Description of the encoder (`unitail.inputs.input_encoder`); None if X holds vectors."""
    scale: str | list[str] = "none"
    """Scaling of all columns, or of each part (`unitail.estimator.scaling`)."""
    pool: NDArray[np.float64] | None = None
    """Unlabelled rows that are read with the labelled ones."""
    saved_scores: SavedScores | None = None
    """Calibration scores of prediction sets; None if not computed yet."""
    representative: NDArray[np.bool_] | None = None
    """Rows that calibrate prediction sets and novelty; None if all do."""
    expected: NDArray[Any] | None = None
    """The `classes` given to `partial_fit`, sorted; None: any label may occur."""


def plain_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constructor's parameters, except `model`, as values that JSON can store."""
    plain = {name: value for name, value in parameters.items() if name != "model"}
    if isinstance(plain["random_state"], np.random.RandomState):
        plain["random_state"] = None  # the seed of the fit was already drawn from it
    if isinstance(plain["encoder"], Encoder):
        plain["encoder"] = plain["encoder"].name
    elif isinstance(plain["encoder"], Mapping):
        plain["encoder"] = dict(plain["encoder"])
    if not isinstance(plain["cache"], bool):
        plain["cache"] = AUTO  # the folder may not exist where the classifier is loaded
    for name in ("class_shares", "class_prior"):
        if plain[name] is not None and not isinstance(plain[name], str):
            plain[name] = [float(share) for share in np.asarray(plain[name])]
    parts, scale = plain["parts"], plain["scale"]
    plain["parts"] = None if parts is None else checked_parts(parts)
    plain["scale"] = scale if isinstance(scale, str) else list(map(str, scale))  # of each part
    if isinstance(plain["class_weight"], Mapping):  # JSON keys are strings, labels need not be
        pairs = plain["class_weight"].items()
        plain["class_weight"] = [[_item(label), _item(weight)] for label, weight in pairs]
    # Parameter searches pass numpy scalars, which JSON cannot store.
    return {name: _item(value) for name, value in plain.items()}


def _item(value: Any) -> Any:  # noqa: ANN401 - whatever a parameter holds
    return value.item() if isinstance(value, np.generic) else value


def _parameters(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constructor's parameters from what `plain_parameters` returned."""
    weights, cache = table.get("class_weight"), table.get("cache")
    return {
        **table,
        "class_weight": dict(weights) if isinstance(weights, list) else weights,
        "cache": cache if isinstance(cache, bool) else AUTO,  # never a folder that the file names
    }


def check_parameters(folder: Path, parameters: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse a saved classifier with parameters that this version does not have."""
    unknown = sorted(set(parameters) - (set(known) - {"model"}))
    if unknown:
        raise InvalidCheckpoint(
            f"{folder} holds a classifier with unknown parameters",
            got=", ".join(unknown),
            allowed=", ".join(known),
            remedy="Load it with the version of unitail that saved it, or fit it again.",
        )


def is_classifier(folder: Path) -> bool:
    """Return whether a folder holds a saved classifier, possibly an incomplete one."""
    folder = readable_folder(folder)
    return any((folder / name).exists() for name in (CLASSIFIER_FILE, ROWS_FILE))


def check_free(folder: Path) -> None:
    """Refuse a folder that holds something other than a classifier, which saving would replace."""
    if folder.is_file():
        raise CannotWrite(
            f"{folder} is a file",
            got="a file of that name",
            allowed="a new or empty folder, or one with a classifier to replace",
            remedy="Name another folder.",
        )
    if folder.exists() and not (folder / CLASSIFIER_FILE).exists() and any(folder.iterdir()):
        raise CannotWrite(
            f"{folder} holds something other than a classifier",
            got=", ".join(sorted(path.name for path in folder.iterdir())[:3]),
            allowed="a new or empty folder, or one with a classifier to replace",
            remedy="Name another folder.",
        )


def save_classifier(saved: SavedClassifier, folder: Path) -> Path:
    """Write `folder`, following a link; what is there is replaced once the new one is complete."""
    check_free(folder)
    table = {
        "format": FORMAT,
        "made_with": VERSIONS,
        "classes": _labels_to_table(saved.classes),
        "expected_classes": None if saved.expected is None else _labels_to_table(saved.expected),
        "seed": saved.seed,
        "parameters": saved.parameters,
        "feature_names": saved.feature_names,
        "inputs": saved.inputs,
        "scale": saved.scale,
        "calibration": None if saved.saved_scores is None else saved.saved_scores.key,
        "pool_rows": 0 if saved.pool is None else len(saved.pool),
        # The hash of any shipped model, despite the key's name, which is older than the others.
        "default_model": _shipped_hash(saved.model) if isinstance(saved.model, str) else None,
    }
    with fresh_folder(followed(folder)) as fresh:
        arrays = {"features": saved.rows.features, "class_indices": saved.rows.class_indices}
        rows = saved.rows
        weighted = rows.counts is not None or rows.weights is not None
        optional = {
            WEIGHTS: rows.given_weights if weighted else None,
            WEIGHTLESS: rows.weightless if len(rows.weightless) else None,
            POOL: saved.pool,
            REPRESENTATIVE: saved.representative,
            SCORES: None if saved.saved_scores is None else saved.saved_scores.scores,
        }
        arrays |= {name: array for name, array in optional.items() if array is not None}
        save_file(
            {name: np.ascontiguousarray(array) for name, array in arrays.items()}, fresh / ROWS_FILE
        )
        text = card(table, saved.rows.shots.tolist())
        (fresh / CARD_FILE).write_text(text, encoding="utf-8", errors="backslashreplace")
        (fresh / CLASSIFIER_FILE).write_text(json.dumps(table, indent=2) + "\n")
        if not isinstance(saved.model, str):
            model = saved.model
            write_model(model.config, model.state_dict(), fresh, model.trained_visibilities)
    return folder


def load_classifier(folder: Path) -> SavedClassifier:
    """Load the content of a folder that `save_classifier` wrote."""
    folder = readable_folder(folder)
    with load_errors(folder):
        table = parse_json(regular(folder / CLASSIFIER_FILE).read_text(encoding="utf-8"))
        classes = labels_from_table(table["classes"])
        expected = table.get("expected_classes")
        arrays = load_file(regular(folder / ROWS_FILE))
        shipped = table["default_model"]
        _check_version(folder, table["format"])
        check_arrays(arrays, len(classes))
        return SavedClassifier(
            rows=_rows(arrays, len(classes)),
            classes=classes,
            seed=int(table["seed"]),
            parameters=_parameters(table["parameters"]),
            feature_names=column_names(table["feature_names"], arrays["features"].shape[1]),
            inputs=table["inputs"],
            scale=table.get("scale", "standard" if table.get("scaled") else "none"),
            pool=arrays.get(POOL),
            saved_scores=_saved_scores(table, arrays),
            representative=arrays.get(REPRESENTATIVE),
            expected=None if expected is None else np.unique(labels_from_table(expected)),
            model=load_model(folder) if shipped is None else _shipped_name(folder, shipped),
        )


def _rows(arrays: Mapping[str, NDArray[Any]], ways: int) -> Rows:
    """Return the rows; counts are those of the file, if it is an older one, or made of weights."""
    rows = Rows(
        arrays["features"].astype(np.float64),
        arrays["class_indices"],
        ways,
        arrays.get(COUNTS),
        arrays.get(WEIGHTS),
        arrays.get(WEIGHTLESS, no_places()),
    )
    if rows.weights is None or rows.counts is not None:
        return rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeightWarning)  # `fit` gave it
        return rows.weighing(rows.weights)


@contextmanager
def load_errors(folder: Path) -> Iterator[None]:
    """Convert any error from a damaged or forged folder to `InvalidCheckpoint`."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise InvalidCheckpoint(
            f"{folder} does not hold a classifier that can be loaded",
            got=f"{type(error).__name__}: {error}",
            allowed=f"a folder with {CLASSIFIER_FILE} and {ROWS_FILE} as `save` writes them",
            remedy="Save the classifier again, or name another folder.",
        ) from error


def _check_version(folder: Path, format_: object) -> None:
    """Refuse folders in a format that this version cannot read."""
    if format_ not in READABLE:
        raise InvalidCheckpoint(
            f"{folder} was written by another version of unitail",
            got=f"format {format_}",
            allowed=f"format {' or '.join(map(str, READABLE))}",
            remedy="Load it with that version.",
        )


def _shipped_hash(name: str) -> str:
    return fingerprint(shipped_folder(name))


def _shipped_name(folder: Path, sha256: str) -> str:
    """Return the name of the shipped model with this hash; refuse an unknown one."""
    for name in shipped_names():
        if _shipped_hash(name) == sha256:
            return name
    raise InvalidCheckpoint(
        f"the classifier in {folder} was fitted with another shipped model",
        got=f"sha256 {sha256}",
        allowed=f"those of this version of unitail: {', '.join(shipped_names())}",
        remedy="Load it with the version of unitail that saved it, or fit it again.",
    )


def _saved_scores(table: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> SavedScores | None:
    key = table.get("calibration")
    return None if key is None else SavedScores(scores=arrays[SCORES], key=str(key))


def _labels_to_table(classes: NDArray[Any]) -> dict[str, Any]:
    values = classes.tolist()
    unsupported = [value for value in values if not isinstance(value, PLAIN)]
    if unsupported:
        raise CannotWrite(
            "labels of this type cannot be saved",
            got=f"{type(unsupported[0]).__name__} {unsupported[0]!r}",
            allowed="strings, integers, floats and booleans",
            remedy="Name the classes by strings before fitting.",
        )
    return {"dtype": classes.dtype.str, "values": values}
