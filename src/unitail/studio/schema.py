"""The tables of a studio: what was labelled, and by what steps; in SQLite or PostgreSQL.

Every action has a number, the revision, and every row has the revision that it was last changed in.
Rows are never removed: a label that was taken back has no class, a class that was deleted says so.
So whoever has seen a revision can ask for what came after it.
"""

import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError, SQLAlchemyError

from unitail.errors import CannotWrite, InvalidConfig
from unitail.files import disk_errors
from unitail.inputs.folders import OWN_FOLDER
from unitail.studio.changes import StoreAway
from unitail.wording import shown

FORMAT = 1
"""Of the tables' layout."""
FOLDER, FILE = OWN_FOLDER, "studio.db"
"""Where a project keeps its studio, if nothing else is said."""
WRITES = "writes"
"""The option of a connection that will write: it waits for others before it reads."""
BUSY_SECONDS = 10
MEMORY = ":memory:"
"""What stands for a database that is no file."""
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""What SQLite says of a file that it cannot make sense of, in the last byte of a number."""

METADATA = sa.MetaData()
COUNTERS = sa.Table(
    "counters",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Integer, nullable=False),
)
CLASSES = sa.Table(
    "classes",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("deleted", sa.Boolean, nullable=False),
    sa.Column("version", sa.Integer, nullable=False, index=True),
)
LABELS = sa.Table(
    "labels",
    METADATA,
    sa.Column("item", sa.Text, primary_key=True),
    sa.Column("class_id", sa.Integer, nullable=True),
    sa.Column("content", sa.Text, nullable=True),
    sa.Column("version", sa.Integer, nullable=False, index=True),
)
ACTIONS = sa.Table(
    "actions",
    METADATA,
    sa.Column("revision", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("changes", sa.Text, nullable=False),
    sa.Column("author", sa.Text, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("undone", sa.Integer, nullable=True),
)


def database_of(source: Path, project: str | None) -> str:
    """Return the URL of a project's database: `project` is a file, a URL, or None for its usual."""
    if project is not None and "://" in project:
        return project
    path = studio_folder(source) / _file_of(source) if project is None else Path(project)
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{path.resolve()}"


def studio_folder(source: Path) -> Path:
    """Return where a project keeps what is its own."""
    return (source if source.is_dir() else source.parent) / FOLDER


def _file_of(source: Path) -> str:
    """Name the file; tables in one folder have one each."""
    return FILE if source.is_dir() else f"{source.name}.{FILE}"


def open_database(url: str) -> sa.Engine:
    """Connect, and make the tables if they are not there."""
    try:
        engine = sa.create_engine(make_url(url), pool_pre_ping=not url.startswith("sqlite"))
    except (ArgumentError, NoSuchModuleError, ImportError, ValueError) as error:
        raise InvalidConfig(
            "the studio's database is unknown",
            got=f"{url!r} ({error})",
            allowed="a file, or a URL such as postgresql+psycopg://user@host/name",
            remedy="Correct --project; PostgreSQL needs `pip install 'psycopg[binary]'`.",
        ) from error
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin)
    try:
        _require_whole(engine)
        with engine.execution_options(**{WRITES: True}).begin() as connection:
            METADATA.create_all(connection)
            _start_counters(connection)
    except SQLAlchemyError as error:
        raise CannotWrite(
            f"the studio's database {_plain(url)} cannot be opened",
            got=str(error.__cause__ or error).strip().split("\n")[0],
            allowed="a file in a folder that can be written to, or a server that answers",
            remedy="Name another place with --project.",
        ) from error
    return engine


def file_behind(engine: sa.Engine) -> Path | None:
    """Return the file that a database is, if it is one."""
    name = engine.url.database if engine.dialect.name == "sqlite" else None
    return Path(name).resolve() if name else None


def damage(error: SQLAlchemyError) -> str | None:
    """Return what SQLite found wrong with its file, if that is why there was an error."""
    cause = error.orig if isinstance(error, DatabaseError) else None
    number = getattr(cause, "sqlite_errorcode", 0)
    return str(cause) if number & 0xFF in DAMAGED else None


def damaged(file: Path | None, found: str) -> StoreAway:
    """Say that a file is damaged, and what can be done."""
    return StoreAway(
        "the database of the labels is damaged, or is none",
        got=f"{shown(file or MEMORY)}: {found.strip().splitlines()[-1]}",
        allowed="a database as a studio leaves it",
        remedy="Nothing was written to it: it stays as it is for tools that save what can be read"
        " (.recover of sqlite3). Bring it back from a copy, or begin anew with another --project.",
    )


def _require_whole(engine: sa.Engine) -> None:
    """Refuse a damaged file before anything is written to it, and made worse."""
    if engine.dialect.name != "sqlite":
        return
    try:
        with engine.connect() as connection:
            found = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
    except UnicodeDecodeError:  # the driver takes the name of a table into an error of its own
        found = "names that are no text"
    except DatabaseError as error:
        found = damage(error) or "ok"  # what else is wrong will be told when it is written to
    if found != "ok":
        raise damaged(file_behind(engine), found)


def _start_counters(connection: sa.Connection) -> None:
    """Begin at revision 0, or make sure that the layout is ours."""
    values = {row.name: row.value for row in connection.execute(sa.select(COUNTERS))}
    if not values:
        rows = [{"name": "revision", "value": 0}, {"name": "format", "value": FORMAT}]
        connection.execute(COUNTERS.insert(), rows)
    elif values.get("format") != FORMAT:
        raise InvalidConfig(
            "the studio's database was made by another version of unitail",
            got=f"format {values.get('format')}",
            allowed=f"format {FORMAT}",
            remedy="Update unitail, or name another place with --project.",
        )


def _prepare_sqlite(connection: Any, _record: object) -> None:  # noqa: ANN401 - the driver's
    assert isinstance(connection, sqlite3.Connection)
    connection.isolation_level = None  # `_begin` says when a transaction begins, and how
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA busy_timeout = {1000 * BUSY_SECONDS}")


def _begin(connection: sa.Connection) -> None:
    """Take the lock first where something will be written: to take it later might fail."""
    writes = connection.get_execution_options().get(WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _plain(url: str) -> str:
    """Write a URL without its password."""
    return shown(make_url(url).render_as_string(hide_password=True))
