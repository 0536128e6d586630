"""What a service is started with: folders of classifiers, or labelled examples to fit them on."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from unitail.encoders.cache import default_cache
from unitail.errors import InvalidInput
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.saving.folder import is_classifier
from unitail.inputs.read import read_labelled
from unitail.service.classifiers import Classifiers
from unitail.wording import shown
from unitail.workflows.fit import fit_files


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
