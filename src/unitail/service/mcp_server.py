"""Classifiers as tools for language models, by the Model Context Protocol (MCP).

Texts and vectors are arguments of a call; no tool opens a file or an address that a model names.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from numpy.typing import NDArray
from scipy.stats import binomtest

import unitail
from unitail.answer_defaults import COVERAGE
from unitail.errors import InvalidInput, UserError
from unitail.estimator.prediction_sets import folds
from unitail.service.classifiers import Classifiers, Version
from unitail.service.limits import ServiceLimits
from unitail.service.messages import NewLabel, Number
from unitail.service.questions import AnswerOptions
from unitail.service.service import Service
from unitail.web.replies import Refusal

INSTRUCTIONS = (
    "Few-shot classifiers. `list_classifiers` lists them and what they take; `classify` returns a"
    " label, its probability, a set of labels that cannot be ruled out, and novelty (near 1: none"
    " of the classes); `add_examples` teaches new examples at once; `evaluate` estimates the"
    " accuracy."
)


def make_mcp_server(
    classifiers: Classifiers, limits: ServiceLimits | None = None
) -> MCPServer[Any]:
    """Return the MCP server; its `run()` uses standard input and output."""
    service = Service(classifiers, limits)

    @asynccontextmanager
    async def lifespan(_: MCPServer[Any]) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.stop()

    server: MCPServer[Any] = MCPServer(
        "unitail",
        instructions=INSTRUCTIONS,
        version=unitail.__version__,
        lifespan=lifespan,
        log_level="WARNING",
    )
    for tool in _tools(service):
        server.tool()(tool)
    return server


def _tools(service: Service) -> list[Any]:
    async def list_classifiers() -> list[dict[str, Any]]:
        """List the classifiers: name, what it takes, classes with numbers of examples."""
        return [served.newest.describe() for served in service.classifiers]

    async def classify(
        name: str,
        texts: list[str] | None = None,
        vectors: list[list[Number]] | None = None,
        rows: list[dict[str, Any]] | None = None,
        coverage: float = COVERAGE,
    ) -> dict[str, Any]:
        """Classify texts, vectors or rows of a table, whichever the classifier takes."""
        with_sets = AnswerOptions(probabilities=False, coverage=coverage)
        with _tool_errors():
            version = service.classifiers.find(name).newest
            async with service.in_time():
                items = await _vectors(service, version, texts, vectors, rows)
                answers = await service.predict(version, items, with_sets)
        return {"version": version.number, "answers": answers}

    async def add_examples(
        name: str,
        labels: list[NewLabel],
        texts: list[str] | None = None,
        vectors: list[list[Number]] | None = None,
        rows: list[dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """Add labelled texts, vectors or rows of a table; a new label creates a class.

        Lost when the server stops, unless it was started with --save-changes.
        """
        with _tool_errors():
            served = service.classifiers.find(name)
            async with service.in_time() as deadline:
                items = await _vectors(service, served.newest, texts, vectors, rows)
                return (await service.add(served, items, labels, deadline)).describe()

    async def evaluate(name: str) -> dict[str, Any]:
        """Estimate the accuracy on new items by leaving examples out, with a 95 % interval."""
        with _tool_errors():
            version = service.classifiers.find(name).newest
            estimate: dict[str, Any] = await service.compute(_evaluate, version)
            return estimate

    return [list_classifiers, classify, add_examples, evaluate]


def _evaluate(version: Version) -> dict[str, Any]:
    """Estimate the accuracy by cross-validation: each example is answered from the others."""
    fitted = version.classifier.fitted_
    held_out = fitted.held_out(folds(fitted.rows))
    count = len(held_out.places)
    if not count:
        raise InvalidInput(
            "the accuracy cannot be estimated",
            got="no class with two examples or more",
            allowed="classes with two examples or more",
            remedy="Add examples.",
        )
    truths = fitted.rows.class_indices[held_out.places]
    right = int((held_out.probabilities.argmax(axis=1) == truths).sum())
    interval = binomtest(right, count).proportion_ci(method="wilson")
    return {
        "version": version.number,
        "accuracy": {"mean": right / count, "low": interval.low, "high": interval.high},
        "right": right,
        "asked": count,
        "examples": len(version.labels),
    }


async def _vectors(
    service: Service,
    version: Version,
    texts: list[str] | None,
    vectors: list[list[Number]] | None,
    rows: list[dict[str, Any]] | None,
) -> NDArray[Any]:
    items = {"texts": texts, "vectors": vectors, "rows": rows}
    kinds = [kind for kind, values in items.items() if values is not None]
    if len(kinds) != 1:
        raise Refusal(
            422,
            "a call takes items of one kind",
            got=" and ".join(kinds) or "none",
            allowed="one of texts, vectors and rows",
        )
    service.check_count(len(items[kinds[0]] or ()), kinds[0])
    if texts is not None:
        return await service.vectors.texts(version, texts)
    if rows is not None:
        return await service.vectors.table(version, rows)
    return service.vectors.numbers(vectors or [])


@contextmanager
def _tool_errors() -> Iterator[None]:
    """Turn errors that the caller can fix into tool errors."""
    try:
        yield
    except UserError as error:
        raise ToolError(str(error)) from error
