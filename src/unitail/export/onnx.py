"""ONNX files of fitted classifiers, and of models with the support as an input."""

import copy
import json
import logging
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import unitail
from unitail.errors import UserError
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.conformal import threshold
from unitail.export.graphs import ClassifierGraph, ModelGraph
from unitail.extras import optional
from unitail.files import write_bytes
from unitail.nn.episode_model import AnyModel

OPSET = 20
COVERAGES = (0.8, 0.9, 0.95)
"""For which the file says how improbable a label in a set may be."""


class CannotExport(UserError):
    """A model computes something that ONNX has no operator for."""

    remedy = "Export another model; the default one can be exported."


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of the support that a model is exported for."""

    support: int
    classes: int
    width: int


def export_classifier(classifier: TailClassifier, path: Path) -> Path:
    """Write a fitted classifier: vectors in, probabilities and class indices out, any rows.

    The names of the classes, the encoder's name and what sets need are in the file's metadata.
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
    return _write(ClassifierGraph(classifier), (example,), (rows,), facts, path)


def export_model(model: AnyModel, sizes: Sizes, path: Path) -> Path:
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
    return _write(graph, example, (None, None, {0: torch.export.Dim.DYNAMIC}), facts, path)


def _write(
    graph: ClassifierGraph | ModelGraph,
    example: tuple[Tensor, ...],
    dynamic: tuple[Any, ...],
    facts: dict[str, str],
    path: Path,
) -> Path:
    for package in ("onnx", "onnxscript"):
        optional(package, extra="onnx")
    program = _traced(graph, example, dynamic)
    content = program.model_proto
    for key, value in {"producer": f"unitail {unitail.__version__}", **facts}.items():
        entry = content.metadata_props.add()
        entry.key, entry.value = key, value
    write_bytes(path, content.SerializeToString())
    return path


def _traced(graph: nn.Module, example: tuple[Tensor, ...], dynamic: tuple[Any, ...]) -> Any:  # noqa: ANN401
    """Follow the computation, and translate it."""
    inputs: tuple[str, ...] = graph.inputs  # type: ignore[assignment]
    outputs: tuple[str, ...] = graph.outputs  # type: ignore[assignment]
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # of torch, about itself
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
    finally:
        logger.setLevel(level)
