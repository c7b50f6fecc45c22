"""Reading JSON lines in bounded memory: blocks of whole lines, and lines too long for a block cut to size."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

BLOCK_BYTES = 1 << 20
"""How much is held at once. A longer line is read in pieces of this size."""
STRING_BYTES = 4096
"""In a line longer than a block, a longer string keeps only so much of its beginning."""
REDUCED_BYTES = 4 << 20
"""A line that is longer than this even so is counted as malformed."""
TAIL_BYTES = 256
OPENING, CLOSING = b"{}"
_BLANKS = b" \t\r\n"


class Block(NamedTuple):
    """Whole lines of a file, without the file's torn end."""

    offset: int
    """Where the block begins in the file."""
    content: bytes
    size: int
    """How many bytes of the file it stands for: more than its content where a long line was cut to size."""
    torn: bool = False
    """The file ends here in the middle of a line."""


def blocks(file: BinaryIO, begin: int, end: int) -> Iterator[Block]:
    """Yield the lines in [begin, end) of a file as blocks of about BLOCK_BYTES.

    Every block but the last ends with a newline; the last is marked torn where the file has no newline at
    its end. A file that shrank since `end` was read simply ends earlier.
    """
    file.seek(begin)
    rest, offset = b"", begin
    position = begin
    while True:
        piece = file.read(min(BLOCK_BYTES, end - position)) if position < end else b""
        position += len(piece)
        if not piece:
            if rest:
                yield Block(offset, rest, len(rest), torn=True)
            return
        cut = piece.rfind(b"\n") + 1
        if cut:
            content = rest + piece[:cut] if rest else piece[:cut]
            yield Block(offset, content, len(content))
            offset += len(content)
            rest = piece[cut:]
        elif len(rest) + len(piece) <= BLOCK_BYTES:
            rest += piece
        else:
            long = _long_line(file, rest + piece, position, end)
            yield Block(offset, long.content, long.size, torn=long.torn)
            offset += long.size
            position = offset
            file.seek(position)
            rest = b""


def _long_line(file: BinaryIO, begun: bytes, position: int, end: int) -> Block:
    """Return one line that began in memory and goes on in the file, with its long strings cut."""
    shortener = Shortener()
    shortener.feed(begun)
    size = len(begun)
    while position < end:
        piece = file.read(min(BLOCK_BYTES, end - position))
        if not piece:
            break
        newline = piece.find(b"\n")
        if newline >= 0:
            piece = piece[: newline + 1]
        shortener.feed(piece)
        size += len(piece)
        position += len(piece)
        if newline >= 0:
            return Block(0, shortener.content(), size)
    return Block(0, shortener.content(), size, torn=True)


class Shortener:
    """Copies JSON text piece by piece, cutting every string after its first STRING_BYTES.

    A cut never splits an escape or a character, so the result is JSON where the input was.
    """

    def __init__(self) -> None:
        self._kept = bytearray()
        self._in_string = False
        self._string_bytes = 0
        self._pending = b""

    def feed(self, piece: bytes) -> None:
        """Take in the next piece."""
        piece = self._pending + piece
        self._pending = b""
        find, position, end = piece.find, 0, len(piece)
        quote = escape = -1
        while position < end and len(self._kept) <= REDUCED_BYTES:
            if quote < position:
                quote = find(b'"', position)
                quote = end if quote < 0 else quote
            if not self._in_string:
                stop = min(quote + 1, end)
                self._kept += piece[position:stop]
                self._in_string = quote < end
                self._string_bytes = 0
                position = stop
                continue
            if escape < position:
                escape = find(b"\\", position)
                escape = end if escape < 0 else escape
            if escape < quote:
                self._text(piece[position:escape])
                length = 6 if piece[escape + 1 : escape + 2] == b"u" else 2
                if escape + length > end:
                    self._pending = piece[escape:]
                    return
                self._text(piece[escape : escape + length], whole=True)
                position = escape + length
                continue
            self._text(piece[position:quote])
            if quote < end:
                self._kept += b'"'
                self._in_string = False
            position = quote + 1

    def _text(self, text: bytes, *, whole: bool = False) -> None:
        room = STRING_BYTES - self._string_bytes
        self._string_bytes += len(text)
        if room <= 0 or (whole and len(text) > room):
            return
        self._kept += text[:room]

    def content(self) -> bytes:
        """Return what was kept. Beyond REDUCED_BYTES it is cut and no longer JSON, which the reader counts."""
        kept = bytes(self._kept[:REDUCED_BYTES]) + self._pending
        return kept.decode("utf-8", "replace").encode()  # a string may have been cut within a character


def hits(content: bytes, needles: tuple[bytes, ...]) -> Iterator[tuple[int, int, int]]:
    """Yield (begin, end, which) of each line that holds a needle, or may hold one behind an escape.

    `which` has bit n set for needle n. JSON may write any letter as \\u00XX, so a line with an escaped ASCII
    letter or underscore (\\u005_, \\u006_, \\u007_) may hold every needle: all bits are set.
    """
    find, position, size = content.find, 0, len(content)
    following = [find(needle) for needle in needles]
    escape = escaped_letter(content, 0, size)
    everything = (1 << len(needles)) - 1
    while True:
        first = size
        for place in following:
            if 0 <= place < first:
                first = place
        if 0 <= escape < first:
            first = escape
        if first == size:
            return
        begin = content.rfind(b"\n", position, first) + 1 or position
        end = find(b"\n", first)
        end = size if end < 0 else end
        which = 0
        for number, place in enumerate(following):
            if 0 <= place < end:
                which |= 1 << number
        yield begin, end, everything if 0 <= escape < end else which
        position = end + 1
        for number, place in enumerate(following):
            if 0 <= place < position:
                following[number] = find(needles[number], position)
        if 0 <= escape < position:
            escape = escaped_letter(content, position, size)


def escaped_letter(content: bytes, position: int, end: int) -> int:
    """Return where the next escaped ASCII letter or underscore stands, behind which a key may hide, else -1."""
    while True:
        position = content.find(b"\\u00", position, end)
        if position < 0 or content[position + 4 : position + 5] in (b"5", b"6", b"7"):
            return position
        position += 4


def is_broken(line: bytes) -> bool:
    """Return whether a line is neither empty nor can be a JSON object: not in braces, or with a NUL in it."""
    line = line.strip(_BLANKS)
    return bool(line) and (line[0] != OPENING or line[-1] != CLOSING or b"\0" in line)


def broken_lines(content: bytes) -> set[int]:
    """Return where the lines begin that cannot be JSON objects."""
    find, begin, size, found = content.find, 0, len(content), set()
    suspect = b"\0" in content
    while begin < size:
        end = find(b"\n", begin)
        end = size if end < 0 else end
        framed = content[begin] == OPENING and content[end - 1] == CLOSING and not suspect
        if not framed and is_broken(content[begin:end]):
            found.add(begin)
        begin = end + 1
    return found


def tail_digest(file: BinaryIO, end: int) -> str:
    """Return the digest of up to TAIL_BYTES before `end`: equal ones mean that the file only grew."""
    begin = max(0, end - TAIL_BYTES)
    file.seek(begin)
    return hashlib.sha256(file.read(end - begin)).hexdigest()[:16]
