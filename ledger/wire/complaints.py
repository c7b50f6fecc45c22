"""What a provider says went wrong: its text, and the HTTP status that it stands for where it comes without one."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from ledger.wire.shapes import dict_of, word_of

_STATUSES = {
    # Anthropic, "Errors": the types of the object are the statuses by another name.
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
    # OpenAI, "Error codes", and who speaks its protocol.
    "invalid_api_key": 401,
    "insufficient_quota": 429,
    "rate_limit_exceeded": 429,
    "server_error": 500,
    "internal_server_error": 500,
    "overloaded": 503,
    "model_not_found": 404,
    "context_length_exceeded": 400,
}


class Complaint(NamedTuple):
    """What was said."""

    text: str
    status: int = 0
    """0 where it does not say."""


def complaint_of(found: dict[str, Any]) -> Complaint | None:
    """Return the error that an object has as its `error`, or is (vLLM, Mistral: `object`), None where there is none.

    The status is its `code` or `status` where that is a number, else what its `code` or `type` means: identifiers,
    never words of the text.
    """
    error = found.get("error") or (found if word_of(found.get("object")).lower() == "error" else None)
    if not error:
        return None
    fields = dict_of(error)
    text = word_of(error) or word_of(fields.get("message")) or msgspec.json.encode(error).decode()
    for name in ("code", "status", "type"):
        value = fields.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
            value = int(value)
        if type(value) is int and 400 <= value <= 599:
            return Complaint(text, value)
        if isinstance(value, str) and value in _STATUSES:
            return Complaint(text, _STATUSES[value])
    return Complaint(text)
