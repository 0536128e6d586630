"""ONNX files of fitted classifiers, and of models with the support as an input."""

import copy
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import unitail
from unitail.errors import UserError, optional
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.prediction_sets import threshold
from unitail.export.graphs import ClassifierGraph, ModelGraph
from unitail.files import followed, write_bytes
from unitail.nn.episode_model import AnyModel

OPSET = 20
COVERAGES = (0.8, 0.9, 0.95)
"""For which the file says how improbable a label in a set may be."""
TOLERANCE = 1e-3
"""By how much probabilities of a file may differ: it computes in single precision."""
EXPORTERS = ("torch.onnx", "onnxscript", "onnx_ir")
"""Whose warnings say nothing to who exports a model."""
CHECKED = 40
"""Rows that a file is asked before it is written."""


class CannotExport(UserError):
    """A model computes something that ONNX has no operator for."""

    remedy = "Export another model; the default one can be exported."


@dataclass(frozen=True, kw_only=True)
class GraphSizes:
    """Sizes of the support that a model is exported for."""

    support: int
    classes: int
    width: int


@dataclass(frozen=True, eq=False)
class Check:
    """What a file is asked before it is written, and what it must answer."""

    given: tuple[NDArray[Any], ...]
    expected: NDArray[Any]
    """Probabilities."""


def export_classifier(classifier: TailClassifier, path: Path) -> Path:
    """Write a fitted classifier: vectors in, probabilities and class indices out, any rows.

    The names of the classes, the encoder's name and what sets need are in the file's metadata. A
    file that answers otherwise than the classifier is not written.
    """
    kept = classifier.kept_examples()
    fitted = classifier._fitted
    example = torch.from_numpy(kept.vectors[:2].astype("float32"))
    scores = fitted.held_out_scores
    facts = {
        "classes": json.dumps(classifier.classes_.tolist()),
        "encoder": kept.encoder.name if kept.encoder else "",
        "set_thresholds": json.dumps(
            {str(coverage): min(1.0, threshold(scores, coverage)) for coverage in COVERAGES}
        ),
    }
    rows = {0: torch.export.Dim.DYNAMIC}
    graph = ClassifierGraph(classifier)
    asked = kept.vectors[:CHECKED].astype("float32")
    asked = (asked + asked[::-1]) / 2  # between the examples, where answers are less sure
    expected = classifier.with_encoder(None).predict_proba(asked)
    return _write(graph, (example,), (rows,), facts, path, Check((asked,), expected))


def export_model(model: AnyModel, sizes: GraphSizes, path: Path) -> Path:
    """Write a model: support, class indices and queries in, probabilities out, any queries."""
    model = copy.deepcopy(model).to("cpu", torch.float32).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    example = (
        torch.randn(sizes.support, sizes.width, generator=generator),
        torch.arange(sizes.support) % sizes.classes,
        torch.randn(3, sizes.width, generator=generator),
    )
    graph = ModelGraph(model, classes=sizes.classes, width=sizes.width)
    facts = {"sizes": json.dumps(vars(sizes))}
    dynamic = (None, None, {0: torch.export.Dim.DYNAMIC})
    asked = (*example[:2], torch.randn(CHECKED, sizes.width, generator=generator))
    with torch.no_grad():
        expected = graph(*asked).numpy()
    check = Check(tuple(each.numpy() for each in asked), expected)
    return _write(graph, example, dynamic, facts, path, check)


def _write(
    graph: ClassifierGraph | ModelGraph,
    example: tuple[Tensor, ...],
    dynamic: tuple[Any, ...],
    facts: dict[str, str],
    path: Path,
    check: Check,
) -> Path:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        optional(package, extra="onnx")
    program = _traced(graph, example, dynamic)
    content = program.model_proto
    for key, value in {"producer": f"unitail {unitail.__version__}", **facts}.items():
        entry = content.metadata_props.add()
        entry.key, entry.value = key, value
    file = content.SerializeToString()
    _require_same_answers(file, check)
    write_bytes(followed(path), file)
    return path


def _require_same_answers(content: bytes, check: Check) -> None:
    """Refuse to write a file that answers otherwise than what it was made of."""
    session = optional("onnxruntime", extra="onnx").InferenceSession(content)
    names = [each.name for each in session.get_inputs()]
    probabilities = session.run(None, dict(zip(names, check.given, strict=True)))[0]
    difference = float(np.abs(probabilities - check.expected).max())
    if not difference <= TOLERANCE:
        raise CannotExport(
            "the file would answer otherwise than the model",
            got=f"probabilities that differ by {difference:.2g}",
            allowed=f"at most {TOLERANCE:g}",
            remedy="Please report it, with the versions of torch, onnxscript and onnxruntime.",
        )


def _traced(graph: nn.Module, example: tuple[Tensor, ...], dynamic: tuple[Any, ...]) -> Any:  # noqa: ANN401
    """Follow the computation, and translate it."""
    inputs: tuple[str, ...] = graph.inputs  # type: ignore[assignment]
    outputs: tuple[str, ...] = graph.outputs  # type: ignore[assignment]
    try:
        with _quiet(), torch.no_grad():
            traced = torch.export.export(
                graph.eval(), example, dynamic_shapes=dynamic, strict=False
            )
            return torch.onnx.export(
                traced,
                dynamo=True,
                opset_version=OPSET,
                input_names=list(inputs),
                output_names=list(outputs),
                verbose=False,
                optimize=True,
            )
    except UserError:
        raise
    except Exception as error:
        raise CannotExport(
            "this model cannot be written as ONNX",
            got=f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}",
            allowed="models whose computation does not depend on values, of operators ONNX has",
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep to themselves what exporters say of their own work, such as what they did not fold."""
    loggers = [logging.getLogger(name) for name in EXPORTERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
