"""Named classifiers and their versions: every change makes a new one, and the last few are kept.

A service starts from folders of saved classifiers, or from labelled examples to fit them on.
"""

import asyncio
import copy
import json
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
from unitail.files import check_replaceable, followed, fresh_folder, readable_folder
from unitail.inputs.input_encoder import InputEncoder, ItemEncoder, MixedEncoder
from unitail.inputs.read import read_labelled
from unitail.nn.episode_model import Visibility
from unitail.web.replies import Refusal
from unitail.wording import shown, some
from unitail.workflows.fit import ClassifierOptions, fit_files

MAX_VERSIONS = 5
"""Number of versions of a classifier that are kept, including the newest."""
NUMBER_FILE = "served_version.json"
"""File in a saved classifier's folder with the number of its version, so that none comes twice."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, eq=False)
class Version:
    """One version of a classifier."""

    name: str
    number: int
    """Counted from 1."""
    classifier: TailClassifier
    """The classifier of vectors, without the encoder."""
    encoder: InputEncoder | None
    """Encodes items; None if the classifier takes only vectors."""

    @cached_property
    def batches(self) -> bool:
        """Whether rows of several requests may be answered together without changing an answer.

        This holds in double precision, unless queries see each other.
        """
        hypothesis = self.classifier.fitted_.hypothesis
        is_double = next(hypothesis.model.parameters()).element_size() == 8
        return is_double and self.classifier.visibility_ == Visibility.ISOLATED

    @property
    def labels(self) -> NDArray[Any]:
        """The labels of the examples, by place."""
        return self.classifier.kept_examples().labels

    @property
    def places(self) -> NDArray[np.int64]:
        """The place of each example as the classifier counts them: some may have no weight."""
        return self.classifier.kept_examples().places

    @property
    def takes(self) -> str:
        """The kind of items: vectors, or the modality of the encoder."""
        if self.encoder is None:
            return "vectors"
        if isinstance(self.encoder, ItemEncoder):
            return str(self.encoder.encoder.modality)
        return "vectors" if takes_files(self.encoder) else str(Modality.TABLE)

    def warm(self) -> None:
        """Compute in advance what the first answer would wait for."""
        vector = self.classifier.kept_examples().vectors[:1]
        self.classifier.predict_set(vector)
        self.classifier.novelty(vector)

    def describe(self) -> dict[str, Any]:
        """Return a description of this version, as clients see it."""
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


def takes_files(encoder: InputEncoder) -> bool:
    """Return whether cells of a table may be paths: those in a request must not be opened."""
    contents = encoder.contents.values() if isinstance(encoder, MixedEncoder) else ()
    return any(each.modality is not Modality.TEXT or each.are_files for each in contents)


@dataclass(eq=False)
class Served:
    """A named classifier with its latest versions."""

    versions: list[Version]
    folder: Path | None = None
    """Folder in which each change is saved before it is answered; None if changes are not saved."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held during a change."""

    @property
    def newest(self) -> Version:
        """The version that answers unless a request names another."""
        return self.versions[-1]

    def count_examples(self) -> int:
        """Return the number of examples of the newest version."""
        return len(self.newest.labels)

    def version(self, number: int | None) -> Version:
        """Return a version by number, the newest for None; refuse one that is not kept."""
        for version in self.versions:
            if number in (None, version.number):
                return self.newest if number is None else version
        kept = ", ".join(str(version.number) for version in self.versions)
        raise Refusal(
            409,
            f"there is no such version of {self.newest.name!r}",
            got=f"version {number}",
            allowed=kept,
            remedy="Name one of these, or none to get the newest.",
        )

    def changed(self, change: Callable[[TailClassifier], object]) -> Version:
        """Return the next version, saved if there is a folder; `put` then makes it the newest."""
        newest = self.newest
        classifier = copy.copy(newest.classifier)  # shallow: a change replaces the fitted state
        change(classifier)
        version = Version(newest.name, newest.number + 1, classifier, newest.encoder)
        version.warm()
        if self.folder is not None:
            _save(version, self.folder)
        return version

    def put(self, version: Version) -> None:
        """Make this version the newest."""
        self.versions = [*self.versions, version][-MAX_VERSIONS:]


class Classifiers:
    """All classifiers of a service, by name."""

    def __init__(self) -> None:
        self._served: dict[str, Served] = {}

    def add(
        self, name: str, classifier: TailClassifier, folder: Path | None = None, number: int = 1
    ) -> None:
        """Serve a classifier under a name, as the version of this number."""
        if not NAME.fullmatch(name) or name in self._served:
            raise InvalidInput(
                "a classifier needs a valid and unique name",
                got=f"{name!r}{' twice' if name in self._served else ''}",
                allowed="up to 64 letters, digits, dots, hyphens and underscores",
                remedy="Name it: unitail serve NAME=FOLDER.",
            )
        encoder = classifier.kept_examples().encoder
        version = Version(name, number, classifier.with_encoder(None), encoder)
        self._served[name] = Served([version], folder)

    def find(self, name: str) -> Served:
        """Return a classifier by its name; a name never leads to a file."""
        if name not in self._served:
            raise Refusal(
                404,
                "there is no classifier of that name",
                got=repr(name[:64]),
                allowed=some(self._served, 10),
                remedy="Use one of these; the list of classifiers has all names.",
            )
        return self._served[name]

    def __iter__(self) -> Any:  # noqa: ANN401 - an iterator
        return iter(self._served.values())

    def warm(self) -> None:
        """Warm up the newest version of each classifier."""
        for served in self:
            served.newest.warm()


def load_classifiers(
    sources: Sequence[str],
    *,
    device: str = "auto",
    save_changes: bool = False,
    on_line: Callable[[str], None] = lambda line: None,
) -> Classifiers:
    """Load or fit each of `FOLDER`, `TABLE` or `NAME=FOLDER`; `on_line` gets a line for each."""
    classifiers = Classifiers()
    for source in sources:
        name, path = _name_and_path(source)
        if not path.exists():
            raise InvalidInput(
                f"{shown(path)} does not exist",
                got="no such folder or file",
                allowed="a folder that `unitail fit --save` wrote, or labelled examples",
            )
        is_saved = path.is_dir() and is_classifier(path)
        if save_changes and not is_saved:
            raise InvalidInput(
                "changes cannot be saved to examples",
                got=shown(path),
                allowed="with --save-changes, folders that `unitail fit --save` wrote",
                remedy=f"Run `unitail fit {shown(path)} --save FOLDER`, and serve that folder.",
            )
        if save_changes:
            check_replaceable(path)
        classifier = TailClassifier.load(path, device=device) if is_saved else _fit(path, device)
        number = _saved_number(path) if is_saved else 1
        classifiers.add(name, classifier, path if save_changes else None, number)
        on_line(f"{name}: {len(classifier.classes_)} classes from {shown(path)}")
    return classifiers


def _save(version: Version, folder: Path) -> None:
    """Save a version and its number, both or neither."""
    with fresh_folder(followed(folder)) as fresh:
        saved = version.classifier.with_encoder(version.encoder).save(fresh / "saved")
        for path in saved.iterdir():
            path.rename(fresh / path.name)
        saved.rmdir()
        (fresh / NUMBER_FILE).write_text(json.dumps({"version": version.number}) + "\n")


def _saved_number(folder: Path) -> int:
    """Return the number of the version in a folder; 1 if no server has saved it."""
    path = readable_folder(folder) / NUMBER_FILE
    if not path.exists():
        return 1
    try:
        return int(json.loads(path.read_text())["version"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{shown(path)} cannot be read",
            got=str(error),
            allowed='{"version": NUMBER}',
            remedy="Remove the file; versions are then counted from 1.",
        ) from error


def _name_and_path(source: str) -> tuple[str, Path]:
    """Split `NAME=FOLDER`; without a name, derive it from the path."""
    name, equals, folder = source.partition("=")
    if equals and not Path(source).exists():
        return name, Path(folder)
    path = Path(source)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.resolve().stem).strip("-.") or "classifier", path


def _fit(path: Path, device: str) -> TailClassifier:
    examples = read_labelled(path)
    return fit_files(examples, ClassifierOptions(device=device), cache=default_cache()).classifier
