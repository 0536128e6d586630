"""Write fitted classifiers, or models with the support as an input, as ONNX files."""

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
from unitail.errors import CannotExport, UserError, optional
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.prediction_sets import threshold
from unitail.export.graphs import ClassifierGraph, ModelGraph
from unitail.files import followed, write_bytes
from unitail.nn.episode_model import AnyModel
from unitail.relational.geometry import MIN_LIMITED_WIDTH

OPSET = 20
COVERAGES = (0.8, 0.9, 0.95)
"""Coverages for which the file's metadata has thresholds of prediction sets."""
TOLERANCE = 1e-3
"""Largest allowed difference of probabilities: the file computes in single precision."""
EXPORTERS = ("torch.onnx", "onnxscript", "onnx_ir")
"""Loggers of the exporters, whose warnings do not help users."""
CHECKED = 40
"""Number of rows on which a file is checked before it is written."""


MIN_WIDTH = MIN_LIMITED_WIDTH
"""Smallest width of a file for any width: below it the default model computes otherwise."""
CHECKED_WIDTHS = (MIN_WIDTH, 64, 500)
"""Widths with which a file for any width is checked; the second is traced."""


@dataclass(frozen=True, kw_only=True)
class GraphSizes:
    """Sizes of the support that a model is exported for."""

    support: int
    classes: int
    width: int | None
    """None for any width from `MIN_WIDTH` on, which the default model allows."""


@dataclass(frozen=True, eq=False)
class Check:
    """Inputs and expected outputs to check a file with before it is written."""

    inputs: tuple[NDArray[Any], ...]
    expected: NDArray[Any]
    """Probabilities that the file must return."""


def export_classifier(classifier: TailClassifier, path: Path) -> Path:
    """Write a fitted classifier: any number of vectors in, probabilities and class indices out.

    The file's metadata holds the class names, the encoder's name and the thresholds of prediction
    sets. A file that does not give the classifier's answers is an error and is not written.
    """
    kept = classifier.kept_examples()
    fitted = classifier.fitted_
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
    queries = kept.vectors[:CHECKED].astype("float32")
    queries = (queries + queries[::-1]) / 2  # between the examples, where answers are less certain
    expected = classifier.with_encoder(None).predict_proba(queries)
    return _write(graph, (example,), (rows,), facts, path, Check((queries,), expected))


def export_model(model: AnyModel, sizes: GraphSizes, path: Path) -> Path:
    """Write a model: support, class indices and any number of queries in, probabilities out.

    Without a width in `sizes`, the file takes vectors of any width from `MIN_WIDTH` on.
    """
    model = copy.deepcopy(model).to("cpu", torch.float32).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(0)

    def inputs(rows: int, width: int) -> tuple[Tensor, ...]:
        support = torch.randn(sizes.support, width, generator=generator)
        indices = torch.arange(sizes.support) % sizes.classes
        return support, indices, torch.randn(rows, width, generator=generator)

    def check(width: int) -> Check:
        asked = inputs(CHECKED, width)
        with torch.no_grad():
            expected = graph(*asked).numpy()
        return Check(tuple(tensor.numpy() for tensor in asked), expected)

    traced = CHECKED_WIDTHS[1] if sizes.width is None else sizes.width
    graph = ModelGraph(model, classes=sizes.classes, width=traced)
    rows: dict[int, Any] = {0: torch.export.Dim.DYNAMIC}
    if sizes.width is None:
        width = torch.export.Dim("width", min=MIN_WIDTH)
        dynamic: tuple[Any, ...] = ({1: width}, None, {**rows, 1: width})
    else:
        dynamic = (None, None, rows)
    example, facts = inputs(3, traced), {"sizes": json.dumps(vars(sizes))}
    widths = CHECKED_WIDTHS if sizes.width is None else (sizes.width,)
    return _write(graph, example, dynamic, facts, path, *map(check, widths))


def _write(
    graph: ClassifierGraph | ModelGraph,
    example: tuple[Tensor, ...],
    dynamic: tuple[Any, ...],
    facts: dict[str, str],
    path: Path,
    *checks: Check,
) -> Path:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        optional(package, extra="onnx")
    program = _traced(graph, example, dynamic)
    content = program.model_proto
    for key, value in {"producer": f"unitail {unitail.__version__}", **facts}.items():
        entry = content.metadata_props.add()
        entry.key, entry.value = key, value
    file = content.SerializeToString()
    for check in checks:
        _require_same_answers(file, check)
    write_bytes(followed(path), file)
    return path


def _require_same_answers(content: bytes, check: Check) -> None:
    """Raise `CannotExport` unless the file returns the expected probabilities."""
    session = optional("onnxruntime", extra="onnx").InferenceSession(content)
    names = [node.name for node in session.get_inputs()]
    probabilities = session.run(None, dict(zip(names, check.inputs, strict=True)))[0]
    difference = float(np.abs(probabilities - check.expected).max())
    if not difference <= TOLERANCE:
        raise CannotExport(
            "the exported file does not give the answers of the model",
            got=f"probabilities that differ by {difference:.2g}",
            allowed=f"at most {TOLERANCE:g}",
            remedy="Please report it, with the versions of torch, onnxscript and onnxruntime.",
        )


def _traced(graph: nn.Module, example: tuple[Tensor, ...], dynamic: tuple[Any, ...]) -> Any:  # noqa: ANN401
    """Trace the graph and translate it to ONNX."""
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
            allowed="models whose control flow does not depend on values, with operators of ONNX",
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporters' warnings and log messages about their own work."""
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
