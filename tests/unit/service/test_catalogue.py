import pytest

from helpers.services import ASKED, vector_classifier
from unitail.errors import InvalidInput
from unitail.service.catalogue import MAX_VERSIONS, Catalogue
from unitail.web.refusal import Refusal


@pytest.mark.parametrize("name", ["", "a/b", "..", ".a", "a b", "a" * 65, "ä"])
def test_names_are_such_that_addresses_hold_them(name: str) -> None:
    with pytest.raises(InvalidInput, match="needs a name of its own: got"):
        Catalogue().add(name, vector_classifier())


def test_a_name_is_given_once() -> None:
    catalogue = Catalogue()
    catalogue.add("a", vector_classifier())
    with pytest.raises(InvalidInput, match="got 'a' twice"):
        catalogue.add("a", vector_classifier())
    with pytest.raises(Refusal, match="no classifier of that name: got 'b'; allowed: a"):
        catalogue.find("b")


def test_a_change_makes_a_version_and_leaves_the_old_one_as_it_was() -> None:
    catalogue = Catalogue()
    catalogue.add("a", vector_classifier())
    served = catalogue.find("a")
    first = served.newest
    before = first.classifier.predict_proba(ASKED)
    for number in range(2, 9):
        version = served.changed(lambda classifier: classifier.add(ASKED[:1], [0]))
        assert served.newest.number == number - 1  # not before it is put
        served.put(version)
    assert [each.number for each in served.versions] == list(range(8 - MAX_VERSIONS + 1, 9))
    assert (first.classifier.predict_proba(ASKED) == before).all()
    assert served.count_examples() == 12 + 7


def test_a_change_that_fails_changes_nothing() -> None:
    catalogue = Catalogue()
    catalogue.add("a", vector_classifier())
    served = catalogue.find("a")
    with pytest.raises(ValueError, match="of another kind"):
        served.changed(lambda classifier: classifier.add(ASKED[:1], ["word"]))
    assert (served.newest.number, served.count_examples()) == (1, 12)
