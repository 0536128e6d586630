import asyncio
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from helpers.services import ASKED, MODEL, vector_classifier
from unitail import TailClassifier
from unitail.errors import ColumnWarning, InvalidInput
from unitail.service.classifiers import MAX_VERSIONS, Classifiers
from unitail.service.decoder_pool import DecoderPool
from unitail.service.limits import ServiceLimits
from unitail.service.request_vectors import RequestVectors
from unitail.web.replies import Refusal


@pytest.mark.parametrize("name", ["", "a/b", "..", ".a", "a b", "a" * 65, "ä"])
def test_names_are_such_that_addresses_hold_them(name: str) -> None:
    with pytest.raises(InvalidInput, match="needs a valid and unique name: got"):
        Classifiers().add(name, vector_classifier())


def test_a_name_is_given_once() -> None:
    classifiers = Classifiers()
    classifiers.add("a", vector_classifier())
    with pytest.raises(InvalidInput, match="got 'a' twice"):
        classifiers.add("a", vector_classifier())
    with pytest.raises(Refusal, match="no classifier of that name: got 'b'; allowed: a"):
        classifiers.find("b")


def test_a_change_makes_a_version_and_leaves_the_old_one_as_it_was() -> None:
    classifiers = Classifiers()
    classifiers.add("a", vector_classifier())
    served = classifiers.find("a")
    first = served.newest
    before = first.classifier.predict_proba(ASKED)
    for number in range(2, 9):
        version = served.changed(lambda classifier: classifier.add(ASKED[:1], [0]))
        assert served.newest.number == number - 1  # not before it is put
        served.put(version)
    assert [each.number for each in served.versions] == list(range(8 - MAX_VERSIONS + 1, 9))
    assert (first.classifier.predict_proba(ASKED) == before).all()
    assert served.count_examples() == 12 + 7


def test_tables_whose_cells_are_paths_are_asked_by_vectors_alone(tmp_path: Path) -> None:
    """Else a request could name a file for the server to open."""
    for number in range(4):
        Image.fromarray(np.full((8, 8, 3), 60 * number, np.uint8)).save(tmp_path / f"{number}.png")
    frame = pd.DataFrame(
        {"picture": [str(tmp_path / f"{n}.png") for n in range(4)], "size": [1.0, 1.1, 5.0, 5.1]}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnWarning)
        mixed = TailClassifier(MODEL, device="cpu", encoder="auto", cache=False)
        mixed.fit(frame, list("aabb"))
    classifiers = Classifiers()
    classifiers.add("mixed", mixed)
    version = classifiers.find("mixed").newest
    assert version.takes == "vectors"
    items = RequestVectors(ThreadPoolExecutor(1), DecoderPool(ServiceLimits()), ServiceLimits())
    with pytest.raises(Refusal, match="does not take such items: got rows of a table"):
        asyncio.run(items.table(version, [{"picture": "/etc/passwd", "size": 1.0}]))


def test_a_change_that_fails_changes_nothing() -> None:
    classifiers = Classifiers()
    classifiers.add("a", vector_classifier())
    served = classifiers.find("a")
    with pytest.raises(ValueError, match="not of the same kind"):
        served.changed(lambda classifier: classifier.add(ASKED[:1], ["word"]))
    assert (served.newest.number, served.count_examples()) == (1, 12)
