"""From what a user names, paths, folders, patterns and ``file://`` addresses, to the files of one data set."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from qcompile.data.sources.file_formats import DATABASES, FILES, kind_of
from qcompile.data.sources.parts import NO_VALUE, Part
from qcompile.errors import DataError
from qcompile.support.files import place

LOGS = {
    "_delta_log": ("a Delta Lake table", "DeltaTable(path).to_pyarrow_table(), of the package deltalake,"),
    ".hoodie": ("a Hudi table", "spark.read.format('hudi').load(path), or the package hudi,"),
    "metadata": ("an Iceberg table", "table.scan().to_arrow(), of the package pyiceberg,"),
    "_spark_metadata": ("the output of a Spark stream", "spark.read.parquet(path)"),
}
"""Folders with the log that says which files of a table, and which of their rows, are still valid; the table, and the
way to read it."""

NETWORK = re.compile(
    r"(https?|ftps?|sftp|s3[an]?|gs|gcs|r2|azure|azs?|abfss?|wasbs?|adl|hdfs|webhdfs|dbfs|oci|cosn?|oss|hf):/", re.I
)
"""The schemes of addresses of files on a network."""

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/|.*passw")
"""Addresses of databases. A Path has one stroke left of two."""

USER = re.compile(r".*:.*@")
"""What may have a password in it; the name of a file can be like that, too."""

ALL_FILES = "; all files of a folder are data, but those whose names begin with _ or .: move it, or name a pattern"

UNFINISHED = ".unfinished"
"""The suffix of the folder of a run that is not finished, see `qcompile.run.unfinished`."""

WILD = re.compile(r"[*?\[]")

PathLike: TypeAlias = "str | Path"


def find_parts(named: PathLike | tuple[PathLike, ...]) -> list[Part]:
    """Return the files that are named: at least one, all of one kind, none twice, none of a table with a log.

    A folder is all files below it, without those in whose path below the folder a name begins with ``.`` or ``_``. A
    text that names nothing by itself is a pattern if it has one of the characters ``*?[``, as of `glob.glob`.

    Args:
      named: a path, a folder, a pattern, a ``file://`` address, or several.

    Raises:
      DataError: there is no such file, one cannot be read, or they are no data set.
    """
    names = named if isinstance(named, tuple) else (named,)
    parts = [part for name in names for part in _find(name)]
    _require_no_log_above(parts)
    _require_one_kind(parts)
    _require_distinct(parts)
    return parts


def _find(name: PathLike) -> list[Part]:
    path = _local_path(name)
    where = _place(path)
    if where == "nothing" and isinstance(name, str) and WILD.search(str(path)):
        return _match(path)
    if where == "folder":
        return _require_some(path, list(_list_folder(path)))
    return [Part(_require_file(path))]


def _local_path(name: PathLike) -> Path:
    """Return the path of a name, which may begin with ``~`` or be a ``file://`` address.

    Raises:
      DataError: it is an address of something else. It may hold a password, so it is not repeated.
    """
    text = str(name)
    if not text or "\0" in text:
        raise DataError("the data is an empty text, or one with a zero character; give the path of a file or a folder")
    if re.match(r"file:/", text, re.I):
        address = urlsplit(text)
        if address.netloc.lower() in ("", "localhost"):
            return Path(unquote(address.path))
    if scheme := NETWORK.match(text):
        raise DataError(
            f"the data is at an address on a network ({scheme[1].lower()}), which is not read; download it and give "
            "its path, or read it with another library and pass the Arrow table"
        )
    if ADDRESS.match(text) or (USER.match(text) and _place(Path(name)) == "nothing"):
        raise DataError(
            "the data is the address of a database, but no table in it is named; add --table NAME, or pass "
            "Database(url, table)"
        )
    path = Path(name)
    if not text.startswith("~") or _place(path) != "nothing":
        return path
    try:
        return path.expanduser()
    except RuntimeError:  # nobody is called so
        return path


def _match(pattern: Path) -> list[Part]:
    """Return the files that match a pattern, and those below folders that match."""
    wild = next(i for i, name in enumerate(pattern.parts) if WILD.search(name))
    base = Path(*pattern.parts[:wild])
    parts: dict[Path, Part] = {}
    for path in map(Path, sorted(glob.glob(str(pattern), recursive=True))):
        below = path.relative_to(base).parts
        if any(_is_auxiliary(name) and name not in pattern.parts for name in below):
            continue
        is_folder = _place(path) == "folder"
        keys = _keys(below if is_folder else below[:-1])
        found = _list_folder(path, keys) if is_folder else [Part(_require_file(path), keys)]
        parts |= {part.path: part for part in found}
    if not parts:
        raise DataError(f"{pattern}: no such file, and no file matches it as a pattern")
    return list(parts.values())


def _list_folder(
    folder: Path, keys: tuple[tuple[str, str | None], ...] = (), above: frozenset[Path] = frozenset()
) -> Iterator[Part]:
    """Yield all files below a folder, sorted by their names."""
    _require_no_log(folder)
    inside = above | {folder.resolve()}
    for path in _entries(folder):
        if path.suffix == UNFINISHED:
            raise DataError(f"{path} is of a run whose release goes into the folder of the data; write it elsewhere")
        if _place(path) != "folder":
            yield Part(_require_file(path, ALL_FILES), keys)
        elif path.resolve() in inside:
            raise DataError(f"{path} is a link to a folder that it is in; remove it")
        else:
            yield from _list_folder(path, (*keys, *_keys([path.name])), inside)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not _is_auxiliary(path.name))
    except OSError as error:
        raise DataError(f"{folder} cannot be read: {error.strerror}") from None


def _is_auxiliary(name: str) -> bool:
    """True for hidden and auxiliary files, such as _SUCCESS, _temporary and .part-0.crc."""
    return name[0] in "._"


def _keys(folders: Iterable[str]) -> tuple[tuple[str, str | None], ...]:
    """Return the keys in the names of folders; as in DuckDB, the characters after % are hexadecimal."""
    pairs = [folder.split("=", 1) for folder in folders if "=" in folder[1:]]
    return tuple((unquote(key), None if value == NO_VALUE else unquote(value)) for key, value in pairs)


def _require_some(folder: Path, parts: list[Part]) -> list[Part]:
    if not parts:
        raise DataError(f"{folder} is a directory without files to read; name one that has some, or {FILES}")
    return parts


def _require_no_log_above(parts: Sequence[Part]) -> None:
    """Refuse files out of a table with a log, wherever above them it is."""
    links = {part.path.resolve().parent for part in parts if part.path.is_symlink()}
    inside = links | {folder.resolve() for folder in {part.path.parent for part in parts}}
    for above in inside.union(*(folder.parents for folder in inside)):
        _require_no_log(above)


def _require_no_log(folder: Path) -> None:
    for log, (table, way) in LOGS.items():
        # Many a folder is called metadata; that of Iceberg holds versions.
        if (folder / log).is_dir() and (log != "metadata" or any((folder / log).glob("*.metadata.json*"))):
            raise DataError(
                f"{folder} is {table}: its files hold deleted and replaced rows, too, and only its log knows which; "
                f"read it with {way} and pass the table"
            )


def _require_one_kind(parts: Sequence[Part]) -> None:
    first = parts[0].path
    for part in parts:
        if kind_of(part.path) != kind_of(first):
            raise DataError(
                f"the files are of several kinds: {first} is {kind_of(first)}, {part.path} is {kind_of(part.path)}; "
                "give files of one kind"
            )


def _require_distinct(parts: Sequence[Part]) -> None:
    """Refuse a file that is there twice, by whatever name: its rows would count twice."""
    seen: dict[tuple[int, int], Path] = {}
    for part in parts:
        state = part.path.stat()
        before = seen.setdefault((state.st_dev, state.st_ino), part.path)
        if before is not part.path:
            other = "is named twice" if before == part.path else f"and {before} are the same file"
            raise DataError(f"{part.path} {other}, so its rows would count twice; leave one of them out")


def _place(path: Path) -> str:
    try:
        return place(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def _require_file(path: Path, hint: str = "") -> Path:
    """Refuse a path that is no file, or a file of another format."""
    where = _place(path)
    if where == "nothing":
        raise DataError(f"{path}: no such file")
    if where == "device":
        raise DataError(f"{path} is a pipe or a device; save the data in {FILES}")
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    if kind_of(path) is None:
        raise DataError(_unknown(path) + hint)
    if not start:
        raise DataError(f"{path} is empty (zero bytes); a CSV file needs at least a header line")
    return path


def _unknown(path: Path) -> str:
    if path.suffix.lower() in DATABASES:
        return (
            f"{path} is named like a DuckDB database; say which table of it, --table TABLE or "
            f"Database({str(path)!r}, table)"
        )
    return f"{path}: unknown kind of file {path.suffix!r}; use {FILES}"
