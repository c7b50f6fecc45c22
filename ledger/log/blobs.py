"""Text of users, models, tools and providers: kept by its sha256, compressed, apart from the events."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ledger.errors import LogTooNew

PLAIN_LIMIT_BYTES = 128
"""Below this, zstd only adds bytes."""
MAX_SIZE_BYTES = 1 << 30


class Blob(NamedTuple):
    """A blob in column order of the table."""

    sha256: bytes
    """Of the uncompressed bytes."""
    size_bytes: int
    encoding: str
    """`plain` or `zstd`."""
    bytes: bytes


def make_blob(content: bytes) -> Blob:
    """Return the content as it is stored."""
    import hashlib  # OpenSSL costs some milliseconds, which readers need not pay

    digest = hashlib.sha256(content).digest()
    if len(content) < PLAIN_LIMIT_BYTES:
        return Blob(digest, len(content), "plain", content)
    import zstandard

    return Blob(digest, len(content), "zstd", zstandard.ZstdCompressor(level=3).compress(content))


def is_whole(blob: Blob) -> bool:
    """Return whether a blob's content has the digest that it is kept under."""
    return is_content_of(blob.sha256, lambda: blob_content(blob.encoding, blob.bytes))


def is_content_of(sha256: bytes, read: Callable[[], bytes | None]) -> bool:
    """Return whether what `read` gets of a kept blob is there, can be decoded, and has this digest."""
    import hashlib

    import zstandard

    try:
        content = read()
    except (zstandard.ZstdError, MemoryError, LogTooNew):
        return False
    return content is not None and hashlib.sha256(content).digest() == bytes(sha256)


def blob_content(encoding: str, stored: bytes) -> bytes:
    """Return the uncompressed bytes of a stored blob."""
    if encoding == "plain":
        return stored
    if encoding != "zstd":
        raise LogTooNew(f"a blob is stored as {encoding}, which this program does not know: update tallybook")
    import zstandard

    return zstandard.ZstdDecompressor().decompress(stored, max_output_size=MAX_SIZE_BYTES)
