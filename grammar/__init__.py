"""The ``.q`` language: text to workload, canonical text, and errors with their places.

Importing this package is cheap; the parser is built when the first text is read.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from qcompile.errors import Diagnostic, QCompileError, WorkloadError
from qcompile.grammar.reading.words import LANGUAGE_VERSION as LANGUAGE_VERSION
from qcompile.support.files import place

if TYPE_CHECKING:
    from qcompile.grammar.reading.source import Findings, SourceText
    from qcompile.queries.schema import Schema
    from qcompile.queries.workload import Product, Workload

MAX_SIZE = 2_000_000
"""Characters or bytes of a text; a longer one is refused unread. Its number of words is bounded by `parser.MAX_WORDS`,
which is what costs time; long comments and labels are cheap."""

__all__ = ["LANGUAGE_VERSION", "MAX_SIZE", "check", "check_query", "format_text", "load", "parse", "parse_query"]


def parse(text: str, path: str = "<text>", base: Path | None = None) -> Workload:
    """Parse a text into a workload.

    Args:
      text: the content of a ``.q`` file.
      path: its name in messages.
      base: the folder that matrix files are relative to; the current one by default.

    Raises:
      WorkloadError: the text has errors; all that could be found are in ``.diagnostics``.
    """
    workload, diagnostics = check(text, path, base)
    if workload is None:
        raise WorkloadError(diagnostics)
    return workload


def load(path: str | Path) -> Workload:
    """Read a workload from a file.

    Raises:
      WorkloadError: the text has errors.
      QCompileError: the file cannot be read as UTF-8 text.
    """
    file = Path(path)
    return parse(read_text(file), str(path), file.parent)


def read_text(path: str | Path) -> str:
    """Read the text of a ``.q`` file.

    Raises:
      QCompileError: it is missing, a folder, a device, too large, or not UTF-8; says which.
    """
    file = Path(path)
    try:
        _require_file(file)
        with file.open("rb") as stream:
            content = stream.read(MAX_SIZE + 1)
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        raise QCompileError(f"{path} cannot be read: {reason}") from None
    _refuse_own_kind(file, content)
    if len(content) > MAX_SIZE:
        raise QCompileError(f"{path} is larger than {MAX_SIZE} bytes, too large for a workload file; check the name")
    return _decode(content, path)


def _refuse_own_kind(file: Path, content: bytes) -> None:
    """Refuse a plan or release file, which begins as a zip does."""
    if not content.startswith(b"PK"):
        return
    from qcompile.support.archive import kind_of

    kind = kind_of(file)
    if kind is not None:
        word = kind.removeprefix("qcompile ")
        raise QCompileError(f"{file} is a {word} already, not a workload file; see it with: qcompile inspect {file}")


def _require_file(file: Path) -> None:
    found = place(file)
    if found == "nothing":
        raise QCompileError(f"there is no file {file}; check the name and the current folder")
    if found == "folder":
        raise QCompileError(f"{file} is a folder; name a .q file in it")
    if found == "device":
        raise QCompileError(f"{file} is a pipe or a device, not a file; save the text as a .q file")


def check(text: str, path: str = "<text>", base: Path | None = None) -> tuple[Workload | None, tuple[Diagnostic, ...]]:
    """Find all errors and notes of a text; never raises for a mistake in the text.

    Returns:
      The workload, or None when there are errors; and the findings in the order of the text. Notes may accompany a
      workload, for instance on identical families.
    """
    from qcompile.grammar.meaning.resolve import resolve_file
    from qcompile.grammar.reading.parser import parse_source
    from qcompile.grammar.reading.source import Findings, Full, SourceText

    source = SourceText.of(text, path)
    findings = Findings(source)
    if _is_refused(source, findings):
        return None, findings.diagnostics()
    parsed = parse_source(source, findings)
    workload = None
    if parsed.tree is not None:
        with suppress(Full):
            workload = resolve_file(parsed.tree, findings, parsed.broken, base or Path())
    return workload, findings.diagnostics()


def format_text(text: str, path: str = "<text>") -> str:
    """Return the canonical form of a text, with its comments. Only the syntax must be right; no other file is read.

    Raises:
      WorkloadError: the text has syntax errors.
    """
    from qcompile.grammar.printing.layout import Comment, format_file
    from qcompile.grammar.reading.parser import parse_source
    from qcompile.grammar.reading.source import Findings, SourceText

    source = SourceText.of(text, path)
    findings = Findings(source)
    if _is_refused(source, findings, empty=True):
        raise WorkloadError(findings.diagnostics())
    parsed = parse_source(source, findings)
    if findings.has_errors():
        raise WorkloadError(findings.diagnostics())
    comments = [Comment(str(c), (c.start_pos or 0, c.end_pos or 0)) for c in parsed.comments]
    return format_file(parsed.tree, source, comments)


def parse_query(text: str, schema: Schema) -> Product:
    """Parse one query, such as ``count(age in 65..80 and educ = "college")``, ``total`` or ``affine(a + b <= 40)``.

    Args:
      text: an expression of the language; a product of factors with one query.
      schema: what its names refer to.

    Raises:
      WorkloadError: it has errors, describes more than one query, or one that no row of the domains can meet.
    """
    product, diagnostics = check_query(text, schema)
    if product is None:
        raise WorkloadError(diagnostics)
    return product


def check_query(text: str, schema: Schema) -> tuple[Product | None, tuple[Diagnostic, ...]]:
    """Find all errors and notes of one query; arguments as of `parse_query`.

    Returns:
      The query, or None when there are errors; and the findings in the order of the text. Notes say for instance
      where values outside of a domain are counted.
    """
    from qcompile.grammar.meaning.single_query import resolve_query
    from qcompile.grammar.reading.parser import parse_source
    from qcompile.grammar.reading.source import Findings, Full, SourceText

    source = SourceText.of(text, "<query>")
    findings = Findings(source)
    product = None
    if not _is_refused(source, findings):
        tree = parse_source(source, findings, "query").tree
        with suppress(Full):
            product = None if findings.has_errors() else resolve_query(tree, schema, findings)
    return product, findings.diagnostics()


def _is_refused(source: SourceText, findings: Findings, *, empty: bool = False) -> bool:
    """True if the text is refused before parsing."""
    if len(source.text) > MAX_SIZE:
        hint = f"at most {MAX_SIZE} are read"
        findings.error(f"a text of {len(source.text)} characters is too long", (0, 1), hint)
    elif not source.text.strip() and not empty:
        hint = "write schema { age : integer 0..99 } and workload { ages : prefix(age) }"
        findings.error("the text is empty", (0, 1), "write for instance total" if source.path == "<query>" else hint)
    return findings.has_errors()


def _decode(content: bytes, path: str | Path) -> str:
    if not content.strip():
        raise QCompileError(f"{path} is empty; a workload file has the blocks schema {{ ... }} and workload {{ ... }}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = content.count(b"\n", 0, e.start) + 1
        hint = "it looks like UTF-16; " if content[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        raise QCompileError(f"{path} is not UTF-8 text (line {line}); {hint}save it as UTF-8") from None
