"""The tables of a studio: classes, labels, history and settings, in SQLite or PostgreSQL.

Every action has a number, the revision, and every row holds the revision that last changed it.
Rows are never removed: a removed label has no class, a deleted class is marked as deleted. So a
reader who has seen a revision can select all rows that changed after it.
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
from unitail.studio.stored_rows import Origin, StoreUnavailable
from unitail.wording import shown

FORMAT = 1
"""Version of the table layout."""
FOLDER, FILE = OWN_FOLDER, "studio.db"
"""Default location of a project's database."""
WRITES = "writes"
"""Execution option of connections that will write: they take the write lock before they read."""
BUSY_SECONDS = 10
MEMORY = ":memory:"
"""Name of a database that is not a file."""
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""SQLite's error codes for a damaged file, in the lowest byte of an extended code."""

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
    sa.Column("origin", sa.Text, nullable=False, server_default=Origin.CHOSEN),
    sa.Column("excerpt", sa.Text, nullable=True),
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

SETTINGS = sa.Table(
    "settings",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
"""How the items are read, each value as JSON; databases of earlier versions have none."""


def database_of(source: Path, project: str | None) -> str:
    """Return the URL of a database: `project` is a file, a URL, or None for the default file."""
    if project is not None and "://" in project:
        return project
    path = _database_file(source, project)
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{path.resolve()}"


def exists(source: Path, project: str | None) -> bool:
    """Return whether the database's file exists; any server is assumed to."""
    is_url = project is not None and "://" in project
    return is_url or _database_file(source, project).exists()


def studio_folder(source: Path) -> Path:
    """Return the folder in which a project keeps its own files."""
    return (source if source.is_dir() else source.parent) / FOLDER


def _database_file(source: Path, project: str | None) -> Path:
    return studio_folder(source) / _file_of(source) if project is None else Path(project)


def _file_of(source: Path) -> str:
    """Return the name of the database file: one per folder, or one per table."""
    return FILE if source.is_dir() else f"{source.name}.{FILE}"


def open_database(url: str) -> sa.Engine:
    """Connect to a database, and create the tables if they do not exist."""
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
        _require_undamaged(engine)
        with engine.execution_options(**{WRITES: True}).begin() as connection:
            METADATA.create_all(connection)
            _add_missing_columns(connection)
            _start_counters(connection)
    except SQLAlchemyError as error:
        raise CannotWrite(
            f"the studio's database {_without_password(url)} cannot be opened",
            got=str(error.__cause__ or error).strip().split("\n")[0],
            allowed="a file in a folder that can be written to, or a server that answers",
            remedy="Choose another one with --project.",
        ) from error
    return engine


def file_behind(engine: sa.Engine) -> Path | None:
    """Return the file of a database; None if it is on a server or in memory."""
    name = engine.url.database if engine.dialect.name == "sqlite" else None
    return Path(name).resolve() if name else None


def damage(error: SQLAlchemyError) -> str | None:
    """Return SQLite's description of the damage, or None if an error has another cause."""
    cause = error.orig if isinstance(error, DatabaseError) else None
    number = getattr(cause, "sqlite_errorcode", 0)
    return str(cause) if number & 0xFF in DAMAGED else None


def damaged(file: Path | None, finding: str) -> StoreUnavailable:
    """Return the error for a damaged file, with its remedies."""
    return StoreUnavailable(
        "the label database is damaged, or is not a database",
        got=f"{shown(file or MEMORY)}: {finding.strip().splitlines()[-1]}",
        allowed="an intact database of a studio",
        remedy="Nothing was written to it: tools such as .recover of sqlite3 may still save what"
        " can be read. Restore it from a copy, or start anew with another --project.",
    )


def _require_undamaged(engine: sa.Engine) -> None:
    """Raise for a damaged file before anything is written to it, which could make it worse."""
    if engine.dialect.name != "sqlite":
        return
    try:
        with engine.connect() as connection:
            finding = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
    except UnicodeDecodeError:  # the driver puts a damaged table name into its error message
        finding = "names that are not text"
    except DatabaseError as error:
        finding = damage(error) or "ok"  # any other problem is raised by the first write
    if finding != "ok":
        raise damaged(file_behind(engine), finding)


def _add_missing_columns(connection: sa.Connection) -> None:
    """Add the columns that databases of earlier versions lack; those versions do without them."""
    existing = {column["name"] for column in sa.inspect(connection).get_columns(LABELS.name)}
    for column in LABELS.columns:
        if column.name not in existing:
            definition = sa.schema.CreateColumn(column).compile(dialect=connection.dialect)
            connection.exec_driver_sql(f"ALTER TABLE {LABELS.name} ADD COLUMN {definition}")


def _start_counters(connection: sa.Connection) -> None:
    """Start a new database at revision 0; raise if an old one has another layout."""
    values = {row.name: row.value for row in connection.execute(sa.select(COUNTERS))}
    if not values:
        rows = [{"name": "revision", "value": 0}, {"name": "format", "value": FORMAT}]
        connection.execute(COUNTERS.insert(), rows)
    elif values.get("format") != FORMAT:
        raise InvalidConfig(
            "the studio's database was made by another version of unitail",
            got=f"format {values.get('format')}",
            allowed=f"format {FORMAT}",
            remedy="Update unitail, or choose another database with --project.",
        )


def _prepare_sqlite(connection: Any, _record: object) -> None:  # noqa: ANN401 - the driver's
    assert isinstance(connection, sqlite3.Connection)
    connection.isolation_level = None  # `_begin` starts the transactions
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA busy_timeout = {1000 * BUSY_SECONDS}")


def _begin(connection: sa.Connection) -> None:
    """Begin a transaction; one that will write takes the lock now, since later it might fail."""
    writes = connection.get_execution_options().get(WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _without_password(url: str) -> str:
    """Return a URL with its password hidden."""
    return shown(make_url(url).render_as_string(hide_password=True))
