"""Labelling interfaces of Label Studio: XML in which a project says what is labelled, and how."""

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass

from unitail.service.classifiers import Version
from unitail.service.labels import names_of, some_classes
from unitail.web.replies import Refusal
from unitail.wording import excerpt

MAX_CONFIG = 100_000
"""Longest labelling interface, in characters."""
PIECE = 64
"""Characters that are parsed at a time: a parser only stops at the end of them."""
ITEMS = {"Text": "text", "Image": "image"}
"""What the classifier of a project must take, by the tag of the objects to label."""


@dataclass(frozen=True)
class Interface:
    """The names in a labelling interface."""

    from_name: str
    to_name: str
    key: str
    """Key of the item in a task's data."""
    takes: str
    """What the classifier must take."""
    choices: tuple[str, ...]
    """The choices as far as the interface lists them."""

    @classmethod
    def of(cls, config: str) -> "Interface":
        """Read the `<Choices>` of an interface, and the object they refer to."""
        root = _parse(config)
        objects = {
            name: ((each.get("value") or "").lstrip("$"), takes)
            for tag, takes in ITEMS.items()
            for each in root.iter(tag)
            if (name := each.get("name"))
        }
        choices = [
            (name, to_name, each)
            for each in root.iter("Choices")
            if (name := each.get("name")) and (to_name := each.get("toName")) in objects
        ]
        if len(choices) != 1:
            raise _wrong_interface(f"{len(choices)} such")
        [(from_name, to_name, element)] = choices
        listed = (each.get("alias") or each.get("value") for each in element.iter("Choice"))
        return cls(from_name, to_name, *objects[to_name], tuple(name for name in listed if name))

    def choice_of(self, label: object) -> str:
        """Return the choice that stands for a class: a listed one if any is a name of it."""
        names = names_of(label)
        return next((name for name in names if name in self.choices), names[0])

    def check(self, version: Version) -> None:
        """Refuse a classifier that cannot answer, or whose answers are none of the choices."""
        if version.takes != self.takes:
            raise _wrong_interface(
                f"objects of kind {self.takes} for a classifier of {version.takes}"
            )
        classes = version.classifier.classes_.tolist()
        if self.choices and not any(self.choice_of(label) in self.choices for label in classes):
            raise Refusal(
                422,
                "no class of the classifier is one of the choices",
                got=some_classes(self.choices),
                allowed=some_classes(classes),
                remedy="Add these as <Choice value=...>, or serve another classifier.",
            )


class _WithoutDoctype(ElementTree.TreeBuilder):
    """Builds documents, but for those that declare a type: its entities could grow without end."""

    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        """Refuse the document."""
        raise _wrong_interface(f"one with a document type, <!DOCTYPE {excerpt(name)}>")


def _parse(config: str) -> ElementTree.Element:
    if len(config) > MAX_CONFIG:
        raise _wrong_interface(f"{len(config):,} characters, more than {MAX_CONFIG:,}")
    parser = ElementTree.XMLParser(target=_WithoutDoctype())
    try:
        for start in range(0, len(config), PIECE):
            parser.feed(config[start : start + PIECE])
        root: ElementTree.Element = parser.close()
    except (ElementTree.ParseError, UnicodeEncodeError) as error:
        raise _wrong_interface(str(error)) from error
    return root


def _wrong_interface(got: str) -> Refusal:
    return Refusal(
        422,
        "the labelling interface is not supported",
        got=got,
        allowed="one <Choices> for one <Text> or <Image>, all with their names",
        remedy="Change the labelling interface.",
    )
