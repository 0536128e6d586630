"""The types of requests and answers, from which the OpenAPI description is made."""

from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
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


CREATED = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED")
"""Events of Label Studio that add examples."""
CORRECTED = "ANNOTATION_UPDATED"
"""The event that replaces an example."""


def _as_list(value: object) -> object:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


OneOrMany = Annotated[
    Many[Item], BeforeValidator(_as_list, json_schema_input_type=Item | list[Item] | None)
]
"""What Label Studio sends by itself, or as a list."""


class ProjectTask(BaseModel):
    """A task of Label Studio."""

    id: int | None = None
    data: dict[str, Any] | None = Field(None, description="The items, by the keys of the project.")


class ProjectTasks(BaseModel):
    """Tasks of a project that need suggestions."""

    label_config: str = Field(description="The labelling interface of the project.")
    tasks: Many[ProjectTask]


class ProjectSetup(BaseModel):
    """A project to which the model is added."""

    interface: str = Field(alias="schema", description="The labelling interface of the project.")


class ProjectInterface(BaseModel):
    """A project of Label Studio."""

    label_config: str = Field(description="The labelling interface.")


class RegionValue(BaseModel):
    """What was annotated."""

    choices: list[StrictStr] | None = None


class AnnotatedRegion(BaseModel):
    """A part of an annotation."""

    from_name: str | None = Field(None, description="The control of the interface that was used.")
    value: RegionValue | None = None


class Annotation(BaseModel):
    """An annotation of one task."""

    task: int | None = Field(None, description="The id of the task.")
    result: list[AnnotatedRegion] | None = None


class ProjectEvent(BaseModel):
    """What happened in a project of Label Studio; what is no annotation is ignored."""

    action: str | None = Field(None, description=f"{', '.join(CREATED)} or {CORRECTED}.")
    project: ProjectInterface | None = None
    task: OneOrMany[ProjectTask] = []
    annotation: OneOrMany[Annotation] = []

    @model_validator(mode="before")
    @classmethod
    def _without_other_events(cls, content: object) -> object:
        is_other = isinstance(content, dict) and content.get("action") not in (*CREATED, CORRECTED)
        return {} if is_other else content


class ModelHealth(BaseModel):
    """That the model is there."""

    status: str = Field(description="UP.")
    model_class: str


class ModelVersion(BaseModel):
    """The version that answers."""

    model_version: str = Field(description="The name of the classifier, and the version's number.")


class ModelVersions(BaseModel):
    """The versions that answer: the newest."""

    versions: list[str]


class SuggestedRegion(BaseModel):
    """A suggested choice."""

    from_name: str
    to_name: str
    type: str = Field(description="choices.")
    value: RegionValue
    score: float


class Suggestion(BaseModel):
    """What is suggested for a task: nothing, if it cannot be read."""

    result: list[SuggestedRegion]
    score: float = Field(description="The probability of the choice.")
    model_version: str


class Suggestions(BaseModel):
    """A suggestion for each task."""

    results: list[Suggestion]
    model_version: str


class Learned(BaseModel):
    """How many annotations became examples."""

    learned: int
    model_version: str | None = Field(None, description="The version with them, if there are any.")
    replaced: int | None = Field(None, description="How many examples a correction replaced.")
