"""Builds frozen dataclasses from plain tables (TOML, JSON); unknown keys are refused."""

import dataclasses
import enum
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from unitail.errors import InvalidConfig, choice, require

Config = TypeVar("Config")

ADDED_LATER = {"added later": True}
"""Metadata of a field that older saved models lack; its default reproduces their behaviour."""
Dropped = Mapping[str, str | None]
"""Fields that older versions had, each with the only value still supported; None: any value. A
configuration lists them in the class attribute `dropped`."""

MAX_BYTES = 2**24
"""Largest TOML file: about a thousand times any that people write."""


def parse_json(text: str | bytes) -> Any:  # noqa: ANN401 - whatever it holds
    """Parse JSON; any invalid input raises `ValueError`, including excessive nesting."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML; any invalid input raises `ValueError`, including excessive nesting."""
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def from_table(cls: type[Config], table: Mapping[str, Any], where: str) -> Config:
    """Build the dataclass `cls` from `table`; `where` names the table in error messages."""
    hints = get_type_hints(cls)
    table = _without_dropped(getattr(cls, "dropped", {}), table, where)
    _check_keys(cls, table, where)
    values = {key: _convert(value, hints[key], f"{where}.{key}") for key, value in table.items()}
    return cls(**values)


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Read the tables of a TOML file; `what` describes the file in error messages."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:  # reading a device might never end
            raise ValueError(f"more than {MAX_BYTES:,} bytes")
        lines = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        return parse_toml(lines)
    except OSError as error:
        raise InvalidConfig(
            f"the {what} cannot be read", got=f"{path}: {error.strerror}", allowed="a TOML file"
        ) from error
    except ValueError as error:
        raise InvalidConfig(
            f"{path} is not valid TOML", got=str(error), allowed="TOML 1.0"
        ) from error


def to_table(config: object) -> dict[str, Any]:
    """Convert a configuration to plain values that JSON and TOML can hold."""
    return dataclasses.asdict(config)  # type: ignore[call-overload, no-any-return]


def require_at_least(minimum: int, config: object, *names: str) -> None:
    """Raise `InvalidConfig` unless these fields of a configuration are at least `minimum`."""
    for name in names:
        value = getattr(config, name)
        require(value >= minimum, name, got=value, allowed=f"{minimum} or more")


def take_words(config: object, **kinds: type[enum.StrEnum]) -> None:
    """Convert strings in fields of a frozen configuration to members of their enumerations."""
    for name, kind in kinds.items():
        object.__setattr__(config, name, choice(kind, getattr(config, name), name))


def _without_dropped(dropped: Dropped, table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Remove fields of older versions, and refuse values that are no longer supported."""
    for key, only in dropped.items():
        if only is not None and table.get(key, only) != only:
            raise InvalidConfig(
                f"{where}.{key} is no longer supported",
                got=repr(table[key]),
                allowed=f"{only!r}, or none",
                remedy="Use the version of unitail that wrote it, or train the model again.",
            )
    return {key: value for key, value in table.items() if key not in dropped}


def _check_keys(cls: type[object], table: Mapping[str, Any], where: str) -> None:
    """Refuse tables with keys that the dataclass lacks, or without keys that it requires."""
    fields = [field for field in dataclasses.fields(cls) if field.init]  # type: ignore[arg-type]
    names = [field.name for field in fields]
    unknown = sorted(set(table) - set(names))
    if unknown:
        raise InvalidConfig(
            f"unknown key in [{where}]", got=", ".join(unknown), allowed=", ".join(names)
        )
    needed = [
        field.name
        for field in fields
        if field.default is field.default_factory is dataclasses.MISSING
    ]
    if not set(needed) <= set(table):
        raise InvalidConfig(
            f"missing key in [{where}]",
            got=", ".join(table) or "no keys",
            allowed=f"at least {', '.join(needed)}",
        )


def _convert(value: Any, kind: Any, where: str) -> Any:  # noqa: ANN401 - tables hold anything
    """Convert a plain value to the annotated type; raise `InvalidConfig` if that is impossible."""
    if get_origin(kind) is UnionType:
        if value is None and type(None) in get_args(kind):
            return None
        kind = next(option for option in get_args(kind) if option is not type(None))
    if get_origin(kind) is tuple and isinstance(value, list | tuple):
        return tuple(_convert(part, get_args(kind)[0], where) for part in value)
    if get_origin(kind) is dict and isinstance(value, dict):
        inner = get_args(kind)[1]
        return {key: _convert(part, inner, f"{where}.{key}") for key, part in value.items()}
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or issubclass(kind, enum.Enum)):
        return _build(value, kind, where)
    if kind is float and type(value) is int:
        return float(value)
    if not isinstance(kind, type) or type(value) is not kind:
        name = "a list" if get_origin(kind) is tuple else getattr(kind, "__name__", str(kind))
        raise InvalidConfig(f"{where} has the wrong type", got=repr(value), allowed=name)
    return value


def _build(value: Any, kind: type[Any], where: str) -> Any:  # noqa: ANN401 - tables hold anything
    """Build a member of an enumeration from its name, or a nested configuration from a table."""
    if isinstance(value, kind):
        return value
    if issubclass(kind, enum.StrEnum):
        return choice(kind, value, where)
    if not isinstance(value, Mapping):
        raise InvalidConfig(f"{where} has the wrong type", got=repr(value), allowed="a table")
    return from_table(kind, value, where)
