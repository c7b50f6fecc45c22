"""Identifiers: new ones, ones that can be found again, and integer keys for projection rows."""

from __future__ import annotations

import os
import time

# The namespace of ids that can be found again; a constant of the format, drawn once at random.
NAMESPACE = bytes.fromhex("6f1f2a52f0a94f3c9b0f6f1d2c7e8a41")


def new_id() -> bytes:
    """Return a UUIDv7 (RFC 9562, section 5.7) as 16 bytes: 48 bits of Unix milliseconds, then random bits.

    The random bits come from the operating system, so ids stay distinct after a fork.
    """
    milliseconds = time.time_ns() // 1_000_000
    raw = bytearray(milliseconds.to_bytes(6, "big") + os.urandom(10))
    raw[6] = 0x70 | (raw[6] & 0x0F)
    raw[8] = 0x80 | (raw[8] & 0x3F)
    return bytes(raw)


def named_id(*parts: str) -> bytes:
    """Return the UUIDv5 (RFC 9562, section 5.5) of the parts: the same fact gives the same id everywhere."""
    import hashlib  # OpenSSL costs some milliseconds, which readers need not pay

    name = "\x1f".join(parts).encode("utf-8", "surrogatepass")
    raw = bytearray(hashlib.sha1(NAMESPACE + name, usedforsecurity=False).digest()[:16])
    raw[6] = 0x50 | (raw[6] & 0x0F)
    raw[8] = 0x80 | (raw[8] & 0x3F)
    return bytes(raw)


def id_text(raw: bytes) -> str:
    """Return the usual 8-4-4-4-12 form of 16 bytes."""
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def id_bytes(text: str) -> bytes:
    """Return the 16 bytes of an id's text form. Raises ValueError for anything else."""
    raw = bytes.fromhex(text.replace("-", ""))
    if len(raw) != 16:
        raise ValueError(f"not an id: {text!r}")
    return raw


def row_key(*parts: str) -> int:
    """Return a positive 63-bit key of the parts, the same whatever order rows arrive in.

    Rows that are interned (dimensions, sessions, turns) are keyed by content, so that two folds of one log
    agree on every key without asking each other. Whoever inserts a row compares the content, so a
    collision (odds of one in 10^9 for 100,000 rows) is an error and never a wrong sum.
    """
    import hashlib

    name = "\x1f".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") >> 1
