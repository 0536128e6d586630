"""Named classifiers and their versions: every change makes a new one, the last few can be asked.

A service starts with folders of saved classifiers, or with labelled examples to fit them on.
"""

import asyncio
import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.cache import default_cache
from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.saving.folder import is_classifier
from unitail.inputs.input_encoder import InputEncoder, ItemEncoder, MixedEncoder
from unitail.inputs.read import read_labelled
from unitail.nn.episode_model import Visibility
from unitail.web.replies import Refusal
from unitail.wording import shown, some
from unitail.workflows.fit import fit_files

MAX_VERSIONS = 5
"""The versions of a classifier that can be asked, the newest among them."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, eq=False)
class Version:
    """A classifier as it was after some change."""

    name: str
    number: int
    """From 1."""
    classifier: TailClassifier
    """For vectors."""
    encoder: InputEncoder | None
    """What makes vectors of items; None if there are only vectors."""

    @cached_property
    def batches(self) -> bool:
        """Whether rows of several requests may be answered together without changing an answer.

        In double precision they may, unless rows see each other.
        """
        hypothesis = self.classifier._fitted.hypothesis
        double = next(hypothesis.model.parameters()).element_size() == 8
        return double and self.classifier.visibility_ == Visibility.ISOLATED

    @property
    def labels(self) -> NDArray[Any]:
        """The labels of the examples, in their order."""
        return self.classifier.kept_examples().labels

    @property
    def takes(self) -> str:
        """What items are: vectors, or what the encoder takes."""
        if self.encoder is None:
            return "vectors"
        if isinstance(self.encoder, ItemEncoder):
            return str(self.encoder.encoder.modality)
        return "vectors" if names_files(self.encoder) else str(Modality.TABLE)

    def warm(self) -> None:
        """Compute what the first answer would wait for."""
        vector = self.classifier.kept_examples().vectors[:1]
        self.classifier.predict_set(vector)
        self.classifier.novelty(vector)

    def describe(self) -> dict[str, Any]:
        """Say what there is to know before asking."""
        labels, counts = np.unique(self.labels, return_counts=True)
        return {
            "name": self.name,
            "version": self.number,
            "takes": self.takes,
            "encoder": self.encoder.name if self.encoder else None,
            "width": int(self.classifier.n_features_in_),
            "visibility": self.classifier.visibility_,
            "classes": [
                {"label": label, "examples": count}
                for label, count in zip(labels.tolist(), counts.tolist(), strict=True)
            ],
        }


def names_files(encoder: InputEncoder) -> bool:
    """Tell whether cells of a table are paths: those of a request must not be opened."""
    contents = encoder.contents.values() if isinstance(encoder, MixedEncoder) else ()
    return any(each.modality is not Modality.TEXT or each.are_files for each in contents)


@dataclass(eq=False)
class Served:
    """A classifier with a name, through all its changes."""

    versions: list[Version]
    folder: Path | None = None
    """Where every change is saved before it is answered."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by who changes it."""

    @property
    def newest(self) -> Version:
        """What is asked if no version is named."""
        return self.versions[-1]

    def count_examples(self) -> int:
        """Count the examples of the newest version."""
        return len(self.newest.labels)

    def version(self, number: int | None) -> Version:
        """Return a version; refuse one that is not kept."""
        for version in self.versions:
            if number in (None, version.number):
                return self.newest if number is None else version
        kept = ", ".join(str(version.number) for version in self.versions)
        raise Refusal(
            409,
            f"there is no such version of {self.newest.name!r}",
            got=f"version {number}",
            allowed=kept,
            remedy="Ask for one of these, or for none to get the newest.",
        )

    def changed(self, change: Callable[[TailClassifier], object]) -> Version:
        """Make the next version, and save it if that was asked for; nothing is replaced yet."""
        newest = self.newest
        classifier = copy.copy(newest.classifier)  # what it has learned is replaced, not altered
        change(classifier)
        version = Version(newest.name, newest.number + 1, classifier, newest.encoder)
        version.warm()
        if self.folder is not None:
            classifier.with_encoder(newest.encoder).save(self.folder)
        return version

    def put(self, version: Version) -> None:
        """Answer with this version from now on."""
        self.versions = [*self.versions, version][-MAX_VERSIONS:]


class Classifiers:
    """All classifiers of a service, by name."""

    def __init__(self) -> None:
        self._served: dict[str, Served] = {}

    def add(self, name: str, classifier: TailClassifier, folder: Path | None = None) -> None:
        """Serve a classifier under a name."""
        if not NAME.fullmatch(name) or name in self._served:
            raise InvalidInput(
                "a classifier needs a name of its own",
                got=f"{name!r}{' twice' if name in self._served else ''}",
                allowed="up to 64 letters, digits, dots, hyphens and underscores",
                remedy="Name it: unitail serve NAME=FOLDER.",
            )
        encoder = classifier.kept_examples().encoder
        version = Version(name, 1, classifier.with_encoder(None), encoder)
        self._served[name] = Served([version], folder)

    def find(self, name: str) -> Served:
        """Return a classifier by its name; nothing but the names is looked at."""
        if name not in self._served:
            raise Refusal(
                404,
                "there is no classifier of that name",
                got=repr(name[:64]),
                allowed=some(self._served, 10),
                remedy="Ask one of these: the list of classifiers has them all.",
            )
        return self._served[name]

    def __iter__(self) -> Any:  # noqa: ANN401 - an iterator
        return iter(self._served.values())

    def warm(self) -> None:
        """Compute what first answers would wait for."""
        for served in self:
            served.newest.warm()


def load_classifiers(
    given: Sequence[str],
    *,
    device: str = "auto",
    save_changes: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> Classifiers:
    """Load or fit each of `FOLDER`, `TABLE` or `NAME=FOLDER`; `tell` is called with lines."""
    classifiers = Classifiers()
    for each in given:
        name, path = _named(each)
        if not path.exists():
            raise InvalidInput(
                f"{shown(path)} is not there",
                got="no such folder or file",
                allowed="a folder that `unitail fit --save` wrote, or labelled examples",
            )
        saved = path.is_dir() and is_classifier(path)
        if save_changes and not saved:
            raise InvalidInput(
                "changes cannot be saved to examples",
                got=shown(path),
                allowed="with --save-changes, folders that `unitail fit --save` wrote",
                remedy=f"Run `unitail fit {shown(path)} --save FOLDER`, and serve that folder.",
            )
        classifier = TailClassifier.load(path, device=device) if saved else _fitted(path, device)
        classifiers.add(name, classifier, path if save_changes else None)
        tell(f"{name}: {len(classifier.classes_)} classes from {shown(path)}")
    return classifiers


def _named(given: str) -> tuple[str, Path]:
    """Split `NAME=FOLDER`; without a name, it is the folder's."""
    name, equals, rest = given.partition("=")
    if equals and not Path(given).exists():
        return name, Path(rest)
    path = Path(given)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.resolve().stem).strip("-.") or "classifier", path


def _fitted(path: Path, device: str) -> TailClassifier:
    examples = read_labelled(path)
    return fit_files(examples, cache=default_cache(), device=device).classifier
