"""Texts apart from the events: by their sha256, compressed where that helps, gone when purged."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from ledger.events.envelope import NewEvent
from ledger.log.blobs import PLAIN_LIMIT_BYTES, blob_content, make_blob
from ledger.log.log import Log, StreamAppend


@given(st.binary(max_size=1000))
def test_what_was_stored_comes_back(content: bytes) -> None:
    """Any bytes, by the digest of the uncompressed ones."""
    blob = make_blob(content)
    assert blob.sha256 == hashlib.sha256(content).digest()
    assert blob.size_bytes == len(content)
    assert blob_content(blob.encoding, blob.bytes) == content


def test_short_texts_are_plain_and_long_ones_are_compressed() -> None:
    """Compression begins where it saves."""
    assert make_blob(b"x" * (PLAIN_LIMIT_BYTES - 1)).encoding == "plain"
    long = make_blob(b"the same line again\n" * 1000)
    assert long.encoding == "zstd"
    assert len(long.bytes) < 200


def test_a_purged_blob_is_unknown_and_the_chain_is_whole(
    log: Log, event: Callable[..., NewEvent], assert_sound: Callable[[Log], None]
) -> None:
    """Blobs may be removed; the events that name them stay, and so do their hashes."""
    blob = make_blob(b"a secret that slipped in")
    first = event(1)
    log.append([StreamAppend("a", 0, [first])], [(first.event_id, blob)])
    log.connection.execute("DELETE FROM blobs WHERE sha256 = ?", (blob.sha256,))
    assert log.blob(blob.sha256) is None
    assert log.head_position() == 1
    assert_sound(log)
