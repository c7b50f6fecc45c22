"""`ledger seal`: the log sealed as it is, and the file for whoever keeps it."""

from __future__ import annotations

from pathlib import Path

from ledger.evidence.kept import as_file, new_file
from ledger.evidence.seals import Made, make_seal
from ledger.log.log import Log
from reports.output import put, put_csv
from reports.periods import iso
from reports.text import counted, safe, wrapped

_CSV = ("digest", "made_at", "position", "streams", "streams_changed", "events", "previous", "file")


def seal(log: Log, out: str | None, format_: str) -> int:
    """Append a seal; write the file where one is named, and print it: as JSON it is what the file holds."""
    made = _to_file(log, Path(out)) if out is not None else make_seal(log)
    body = made.body
    if format_ == "json":
        put(as_file(made).decode("ascii").rstrip("\n"))
    elif format_ == "csv":
        row = (body.digest, iso(body.made_at), body.position, body.streams, body.streams_changed, body.events)
        put_csv(_CSV, [(*row, body.previous or None, out)])
    else:
        put(as_text(made, out))
    return 0


def _to_file(log: Log, path: Path) -> Made:
    """Make the file, then the seal, then write it: what cannot be kept is not sealed."""
    with new_file(path) as file:
        try:
            made = make_seal(log)
            file.write(as_file(made))
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    return made


def as_text(made: Made, out: str | None) -> str:
    """Return what a person reads of a seal."""
    body = made.body
    streams, events = counted(body.streams, "stream"), counted(body.events, "event")
    lines = [
        f"seal   {body.digest}",
        f"before {body.previous or '(none: the first of this log)'}",
        f"covers {events} in {streams}, {body.streams_changed:,} changed since the seal before",
    ]
    if out is None:
        lines.append(wrapped("The evidence is a copy elsewhere: `ledger seal --out FILE` writes one to be kept."))
    else:
        lines.append(wrapped(safe(f"{out}: give it to somebody who cannot write this log, or print the digest.")))
    return "\n".join(lines)
