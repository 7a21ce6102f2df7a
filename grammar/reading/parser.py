"""Text to syntax tree, with recovery at the next statement after an error.

Lark's LALR parser is fed token by token. Before the first token of each statement its stack is remembered; when a
token does not fit, the error is reported, the stack put back, and the text skipped to the end of the statement.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput, UnexpectedToken
from lark.parsers.lalr_parser_state import ParserState

from qcompile.grammar.reading import mistakes, recovery, syntax
from qcompile.grammar.reading.mistakes import Failure, Key
from qcompile.grammar.reading.source import Findings, Full, SourceText
from qcompile.grammar.reading.transformer import TreeBuilder, token_region
from qcompile.grammar.reading.words import MAX_DIGITS, is_whole, read_string

MAX_DEPTH = 256
"""Levels of brackets, and of ``not``: deeper text is unreadable, and walks of the tree may recurse."""

MAX_WORDS = 100_000
"""Words, marks, line ends and comments of a text: three seconds of parsing, a few megabytes of tree for each second."""

WORD_EFFORT = 25_000
"""Nanoseconds for each of them."""

CHOICE_EFFORT, SIZE_EFFORT = 6000, 150
"""Nanoseconds for each attribute that an ``each`` chooses from, and to count its subsets of each size."""

_OPENERS = {"LPAR": "(", "LSQB": "[", "LBRACE": "{"}
_CLOSERS = frozenset({"OPEN", "CLOSED", "RBRACE"})
_SEPARATORS = frozenset({"_NL", "SEMICOLON"})
_BLOCKS = frozenset({"SCHEMA", "WORKLOAD"})


class _Comments:
    """Makes the contextual lexer accept comments and newlines everywhere; the driver sorts them out.

    Names too, or "clipped" would be read as "clip" and "ped" where no name can stand.
    """

    always_accept = ("COMMENT", "_NL", "NAME")

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        return stream


def read_grammar() -> str:
    """Read the grammar file."""
    return (importlib.resources.files("qcompile.grammar") / "workload.lark").read_text(encoding="utf-8")


@cache
def shared_parser() -> Lark:
    """Return the parser, built once per process."""
    return build_parser()


def build_parser(*, strict: bool = False) -> Lark:
    """Build a parser; ``strict`` refuses ambiguities that priorities would hide."""
    return Lark(
        read_grammar(),
        parser="lalr",
        start=["file", "query"],
        propagate_positions=True,
        maybe_placeholders=True,
        postlex=_Comments(),
        strict=strict,
    )


@dataclass
class Parsed:
    """The result of parsing a text.

    Attributes:
      tree: the syntax tree of the statements that could be read; None for an unreadable query.
      comments: all comments, as tokens, in order.
      broken: the first words of schema lines that could not be read, so that their uses are not reported too.
    """

    tree: Any = None
    comments: list[Token] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)


class TooLong(Exception):
    """The text has more than `MAX_WORDS` words; carries the token where they end."""

    def __init__(self, token: Token) -> None:
        super().__init__()
        self.token = token


class Unfit(Exception):
    """A token does not fit; carries the `Failure`."""

    def __init__(self, failure: Failure) -> None:
        super().__init__()
        self.failure = failure


def parse_source(source: SourceText, findings: Findings, start: str = "file") -> Parsed:
    """Read a text, reporting every statement that cannot be read.

    Args:
      source: the text.
      findings: receives the errors.
      start: "file" or "query".
    """
    driver = Driver(source, start)
    tree = None
    parsed = driver.parsed
    while tree is None and not findings.is_full:
        try:
            tree = driver.run()
        except Unfit as unfit:
            failure = replace(unfit.failure, expected=driver.expected_terminals())
            findings.error(*mistakes.explain_failure(failure, source, advice_by_failure(start)))
            if start == "query" or not driver.recover(unfit.failure):
                break
        except TooLong as e:
            hint = "split the workload into several files, or say the same with fewer words, such as each 1..2 of all"
            findings.error(f"the text has more than {MAX_WORDS} words and marks", token_region(e.token), hint)
            break
    if tree is not None:
        findings.effort += WORD_EFFORT * driver.words
        parsed.tree = TreeBuilder().transform(tree)
        with suppress(Full):
            _spend_on_choices(parsed.tree, findings)
            return parsed
    parsed.tree = None
    return parsed


def _spend_on_choices(tree: Any, findings: Findings) -> None:
    """Charge every ``each`` to the effort limit of the text: a few words can ask for the whole schema repeatedly.

    Raises:
      Full: after reporting that they ask for too much.
    """
    parts = tree.parts if isinstance(tree, syntax.File) else ()
    attributes = sum(len(part.lines) for part in parts if isinstance(part, syntax.SchemaBlock))
    for part in parts:
        for line in part.lines if isinstance(part, syntax.WorkloadBlock) else ():
            if isinstance(line.expression, syntax.Each):
                _spend_on(line.expression, attributes, findings)


def _spend_on(node: syntax.Each, attributes: int, findings: Findings) -> None:
    known = attributes if node.choices is None else len(node.choices)
    high = (node.high or node.low).text
    sizes = min(int(high), known) if is_whole(high) else 0
    hint = "write fewer 'each', of fewer attributes"
    effort = known * (CHOICE_EFFORT + SIZE_EFFORT * max(sizes, 0))
    findings.spend(effort, f"'each' of up to {high} of {known} attributes", node.at, hint)


@cache
def advice_by_failure(start: str = "file") -> dict[Key, mistakes.Advice]:
    """Advice by parser state and kind of token, found by parsing each example of a mistake.

    Args:
      start: "file", or "query": the advice of `mistakes.QUERIES` is for single queries only.
    """
    known: dict[Key, mistakes.Advice] = {}
    general: dict[Key, mistakes.Advice] = {}
    for rule, advice, example in _examples(start):
        first, *others = _failure_of(example, rule).keys
        known.setdefault(first, advice)
        for key in others:
            general.setdefault(key, advice)
    # An example with a keyword explains other words in its place only when no example with a name does.
    return {**general, **known}


def _examples(start: str) -> Iterator[tuple[str, mistakes.Advice, str]]:
    """Start rule, advice and wrong text of each example; the first one counts."""
    collections = {"query": mistakes.QUERIES} if start == "query" else {}
    for rule, collection in {**collections, "file": mistakes.EXAMPLES}.items():
        for advice, examples in collection.items():
            for example in examples:
                yield rule, advice, example


def _failure_of(example: str, start: str) -> Failure:
    try:
        Driver(SourceText.of(example, "example"), start).run()
    except Unfit as unfit:
        return unfit.failure
    raise ValueError(f"the example of a mistake {example!r} is no mistake")


@dataclass(frozen=True)
class _Saved:
    """The parser's stacks before a statement.

    Lark extends the children of a list in place when it grows, so their number is part of what is saved.
    """

    states: list[Any]
    values: list[Any]
    lengths: list[int]

    @classmethod
    def of(cls, state: ParserState[Any]) -> _Saved:
        values = list(state.value_stack)
        return cls(list(state.state_stack), values, [len(v.children) if isinstance(v, Tree) else 0 for v in values])

    def put_back(self, state: ParserState[Any]) -> None:
        state.state_stack[:], state.value_stack[:] = self.states, self.values
        for value, length in zip(self.values, self.lengths, strict=True):
            if isinstance(value, Tree):
                del value.children[length:]


class Driver:
    """Feeds the tokens of one text to Lark and keeps track of statements and brackets."""

    def __init__(self, source: SourceText, start: str) -> None:
        self._interactive = interactive = shared_parser().parse_interactive(source.text, start=start)
        self.source = source
        self.parsed = Parsed()
        self._state = interactive.parser_state
        self._lexer = interactive.lexer_thread
        self._open: list[Token] = []
        self._block: Token | None = None
        self._previous: Token | None = None
        self._negations = 0
        self.words = 0
        self._first: int | None = None
        self._saved = _Saved([], [], [])

    def run(self) -> Tree[Token]:
        """Parse from the current position to the end of the text.

        Raises:
          Unfit: at the first token that does not fit.
          TooLong: at the first token too many.
        """
        try:
            for token in self._tokens():
                self.words += 1
                if self.words > MAX_WORDS:
                    raise TooLong(token)
                self._take(token)
            return self._finish()
        except UnexpectedToken as e:
            raise Unfit(self._failure(e.token.type, str(e.token), token_region(e.token))) from None
        except UnexpectedInput as e:
            offset = int(e.pos_in_stream or 0)
            raise Unfit(self._failure("", self.source.text[offset], (offset, offset + 1))) from None

    def expected_terminals(self) -> frozenset[str]:
        """Return the terminals that fit here."""
        accepts: set[str] = self._interactive.accepts()  # type: ignore[no-untyped-call]
        return frozenset(accepts)

    def _tokens(self) -> Iterator[Token]:
        tokens: Iterator[Token] = self._lexer.lex(self._state)  # type: ignore[no-untyped-call]
        return tokens

    def recover(self, failure: Failure) -> bool:
        """Drop the statement with the failure; False when there is nothing after it."""
        if failure.kind == "$END":
            return False
        start = failure.at[0] if self._first is None else self._first
        if self._first is not None:
            self._saved.put_back(self._state)
        self._open = self._open[: self._base]
        if failure.unclosed_block:
            self._close_block(start)
            return True
        end = max(recovery.statement_end(self.source.text, start, self._block is not None), start + 1)
        if self._block is not None and self._block.type == "SCHEMA":
            self.parsed.broken.update(recovery.declared_names(self.source.text, start, end))
        self._go_to(end)
        return True

    @property
    def _base(self) -> int:
        return 0 if self._block is None else 1

    def _go_to(self, offset: int) -> None:
        lexer: Any = self._lexer.state
        lexer.line_ctr.char_pos = offset
        lexer.last_token = None
        self._first = self._previous = None
        self._negations = 0

    def _close_block(self, start: int) -> None:
        """Insert the missing brace of the block before ``start``."""
        for kind, text in (("_NL", "\n"), ("RBRACE", "}")):
            self._state.feed_token(Token(kind, text, start_pos=start, end_pos=start))
        self._open, self._block = [], None
        self._go_to(start)

    def _take(self, token: Token) -> None:
        if token.type == "COMMENT":
            self.parsed.comments.append(token)
            return
        if token.type == "_NL" and (len(self._open) > self._base or self._after_block_word):
            return
        if self._first is None and token.type not in _SEPARATORS and token.type != "RBRACE":
            self._first = token.start_pos
            self._saved = _Saved.of(self._state)
        self._check(token)
        self._state.feed_token(token)
        self._track(token)

    @property
    def _after_block_word(self) -> bool:
        return self._previous is not None and self._previous.type in _BLOCKS

    def _check(self, token: Token) -> None:
        """Refuse words that are malformed in themselves."""
        if token.type == "STRING":
            try:
                read_string(token)
            except ValueError as e:
                hint = r"write \" \\ \n \t or \u and four hexadecimal digits"
                raise Unfit(self._failure("WORD", str(e), token_region(token), hint)) from None
        if token.type in ("INT", "DECIMAL") and len(token) > MAX_DIGITS:
            problem = f"a number of {len(token)} digits is too long"
            raise Unfit(self._failure("WORD", problem, token_region(token), f"at most {MAX_DIGITS} digits are read"))
        self._negations = self._negations + 1 if token.type == "NOT" else 0
        if len(self._open) - self._base >= MAX_DEPTH or self._negations > MAX_DEPTH:
            problem = f"nested more than {MAX_DEPTH} levels deep"
            raise Unfit(
                self._failure("WORD", problem, token_region(token), "remove brackets or 'not', or split the family")
            )

    def _track(self, token: Token) -> None:
        """Follow brackets and the ends of statements after a token that fitted."""
        if token.type in _OPENERS:
            if self._after_block_word:
                self._block, self._first = self._previous, None
            self._open.append(token)
        elif token.type in _CLOSERS and self._open:
            self._open.pop()
            if not self._open and self._block is not None:
                self._block = self._first = None
        elif token.type in _SEPARATORS and len(self._open) == self._base:
            self._first = None
        self._previous = token

    def _finish(self) -> Tree[Token]:
        end = len(self.source.text)
        if not self._open:
            self._state.feed_token(Token("_NL", "\n", start_pos=end, end_pos=end))
        tree: Tree[Token] = self._state.feed_token(Token("$END", "", start_pos=end, end_pos=end), is_end=True)
        return tree

    def _failure(self, kind: str, text: str, at: tuple[int, int], hint: str = "") -> Failure:
        states = self._state.state_stack
        opener = self._open[-1] if len(self._open) > self._base else None
        return Failure(
            kind=kind,
            text=text,
            at=at,
            hint=hint,
            # The state after a name or number is shared by all rules that end in one: the state below tells them apart.
            place=(states[-2] if len(states) > 1 else -1, states[-1]),
            previous=None if self._previous is None else (self._previous.type, str(self._previous)),
            previous_at=syntax.NOWHERE if self._previous is None else token_region(self._previous),
            statement=self._first,
            opener=None if opener is None else (str(opener), token_region(opener)),
            block=None if self._block is None else (str(self._block), token_region(self._block)),
        )
