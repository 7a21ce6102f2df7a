"""The only place randomness comes from: the operating system, or, for tests, a hash of a seed.

No pseudo-random generator of NumPy or of the standard library touches a release. The noise and the adaptive mechanism
take their bytes here; a test keeps every other module from importing a source of its own.
"""

from __future__ import annotations

import hashlib
import os
from typing import Protocol

from qcompile.errors import OptionError


class ByteSource(Protocol):
    """A stream of independent uniform bytes.

    Attributes:
      private: whether the bytes are unpredictable; a release made from others is stamped NOT PRIVATE.
    """

    @property
    def private(self) -> bool:
        """True if the bytes are unpredictable."""
        ...

    def take(self, n: int) -> bytes:
        """The next ``n`` bytes."""
        ...

    def branch(self, label: bytes) -> ByteSource:
        """A source independent of this one, the same for the same label whatever was read from this one."""
        ...


class SystemSource:
    """The operating system's cryptographic generator."""

    private = True

    def take(self, n: int) -> bytes:
        """``n`` bytes of ``os.urandom``."""
        return os.urandom(n)

    def branch(self, label: bytes) -> SystemSource:
        """This source: what the system gives next is independent of everything before."""
        return self

    def __repr__(self) -> str:
        return "SystemSource()"


class SeededSource:
    """NOT PRIVATE: bytes that follow from a seed, so that a test can repeat a run.

    Block number c of the stream is SHAKE-256 of seed, stream and c, lengths included, so streams are independent as
    far as anyone can tell, and the bytes do not depend on how they are cut into calls.

    Args:
      seed: any integer >= 0.
      stream: which of the seed's streams, e.g. a node's name and a purpose.
    """

    private = False
    _BLOCK = 1 << 16

    def __init__(self, seed: int, stream: str | bytes = b"") -> None:
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise OptionError(f"a test seed must be an integer >= 0, got {seed!r}; leave it out for private noise")
        self._seed = seed
        self._stream = stream.encode() if isinstance(stream, str) else bytes(stream)
        self._blocks = 0
        self._left = b""

    def take(self, n: int) -> bytes:
        """The next ``n`` bytes of the stream."""
        parts, missing = [self._left], n - len(self._left)
        while missing > 0:
            parts.append(self._block())
            missing -= self._BLOCK
        data = b"".join(parts)
        self._left = data[n:]
        return data[:n]

    def branch(self, label: bytes) -> SeededSource:
        """The stream named by this stream's name and ``label``; it does not depend on what was taken here."""
        # With the length of the name in front, no two (stream, label) pairs give the same name.
        return SeededSource(self._seed, _framed(self._stream) + label)

    def __repr__(self) -> str:
        return f"SeededSource(seed={self._seed}, stream={self._stream!r}; NOT PRIVATE)"

    def _block(self) -> bytes:
        seed = self._seed.to_bytes((self._seed.bit_length() + 7) // 8, "big")
        key = _framed(b"qcompile test stream") + _framed(seed) + _framed(self._stream) + self._blocks.to_bytes(8, "big")
        self._blocks += 1
        return hashlib.shake_256(key).digest(self._BLOCK)


def _framed(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big") + part
