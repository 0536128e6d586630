"""The types of requests and answers, from which the OpenAPI description is made."""

from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)

from unitail.answer_defaults import COVERAGE
from unitail.service.limits import MAX_LABEL

MAX_INFLUENCE = 100
"""Largest number of deciding examples returned with an answer."""
Label = StrictStr | StrictBool | StrictInt | StrictFloat
NewLabel = Annotated[StrictStr, Field(max_length=MAX_LABEL)] | StrictBool | StrictInt | StrictFloat
Number = StrictFloat | None
Item = TypeVar("Item")
Many = Annotated[list[Item], Field(fail_fast=True)]
"""A list whose validation stops at the first error: a large list could have millions."""


class Exact(BaseModel):
    """A message without unknown fields or type conversion: `true` and "1" are not numbers."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Content(Exact):
    """Items of one kind: vectors, texts, or rows of a table."""

    vectors: Many[Many[Number]] | None = Field(
        None, description="Vectors of the same width; null where a value is missing."
    )
    texts: Many[str] | None = Field(None, description="Texts.")
    rows: Many[dict[str, Any]] | None = Field(
        None, description="Rows of a table, each a mapping from columns to values."
    )


class Question(Content):
    """The items to answer, and what to return for each of them."""

    version: int | None = Field(
        None, description="A version of the classifier; the newest by default."
    )
    probabilities: bool = Field(
        True, description="Whether to return the probability of each class."
    )
    coverage: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        COVERAGE,
        description="How often prediction sets should contain the true label; null for no sets.",
    )
    novelty: bool = Field(
        True, description="Whether to return how unlike all classes each item is."
    )
    influence: Annotated[int, Field(ge=0, le=MAX_INFLUENCE)] = Field(
        0, description="How many of the examples that decided an answer to return."
    )


class Deciding(BaseModel):
    """An example that decided an answer."""

    example: int = Field(description="Its place among the examples of this version, from 0.")
    label: Label
    value: float = Field(description="What it adds to log p(label) above the mean of the classes.")
    share: float = Field(description="Its share of all evidence for the label, 0 to 1.")


class Answer(BaseModel):
    """The answer to one item."""

    label: Label = Field(description="The most probable class.")
    probability: float = Field(description="The probability of this class.")
    probabilities: list[float] | None = Field(None, description="In the order of `classes`.")
    set: list[Label] | None = Field(None, description="Labels that cannot be ruled out.")
    novelty: float | None = Field(None, description="From 0 to 1.")
    influence: list[Deciding] | None = Field(
        None, description="The examples that decided the answer, the strongest first."
    )


class Answers(BaseModel):
    """The answers to a request, in the order of its items."""

    classifier: str
    version: int
    classes: list[Label]
    answers: list[Answer]


class NewExamples(Content):
    """Labelled items; a new label creates a class."""

    labels: Many[NewLabel] = Field(description="The class of each item.")


class Forgotten(Exact):
    """Examples to remove."""

    places: Many[Annotated[int, Field(ge=0, lt=2**31)]] = Field(
        min_length=1, description="Places among the examples, from 0."
    )
    version: int = Field(description="The newest version, to which the places refer.")


class ClassSize(BaseModel):
    """A class, and the number of its examples."""

    label: Label
    examples: int = Field(description="The number of its examples.")


class Classifier(BaseModel):
    """The description of a classifier."""

    name: str = Field(description="Its name in the routes.")
    version: int = Field(description="The number of this version; each change makes the next.")
    takes: str = Field(description="vectors, image, text, audio or table.")
    encoder: str | None = Field(description="What makes vectors of items; null if nothing does.")
    width: int = Field(description="The width of its vectors.")
    visibility: str = Field(description="isolated: each row is answered by itself; or joint.")
    classes: list[ClassSize]
    versions: list[int] | None = Field(
        None,
        description="The versions that can be queried; told where one classifier is described.",
    )


class Examples(BaseModel):
    """The labels of a classifier's examples, by place."""

    version: int
    labels: list[Label]


class Problem(BaseModel):
    """Why a request was refused."""

    error: str = Field(description="What is wrong, what was given, what is allowed and what to do.")
