"""Events of `run` streams: what one agent run decided, sent, received and did. One claim holder writes a stream."""

from __future__ import annotations

import msgspec

_EMPTY = msgspec.Raw(b"{}")


class RunClaimed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A process took the right to run this stream. A newer claim fences the older."""

    epoch: int
    """1, 2, 3 ...: each claim has a larger one."""
    host: str
    """The machine's name."""
    pid: int
    """The process id there."""
    reason: str = "begun"
    """`begun`, `resumed` (the older holder had released it), `recovered` (it was dead), `taken` (it was asked for)."""


class RunReleased(msgspec.Struct, frozen=True, omit_defaults=True):
    """The holder of a claim will not act any more."""

    epoch: int
    """Of the claim that is given up."""


class SessionOpened(msgspec.Struct, frozen=True, omit_defaults=True):
    """A conversation began. First of a root run's stream, after its claim."""

    folder: str
    """The workspace: an absolute path."""
    root: str = ""
    """The repository's root, empty outside of one."""
    branch: str = ""
    """The branch in git, empty outside of one."""


class TurnStarted(msgspec.Struct, frozen=True, omit_defaults=True):
    """An operation began: a prompt until its answer. The envelope's `turn` is its id."""

    number: int
    """1, 2, 3 ... within the run."""
    grant: str
    """The grant that it spends, opened in the session's hub."""
    who: str = "main"
    """`main`, `agent`, `compact`, `distill`."""
    agent: str = ""
    """The sub-agent's name, empty for the root."""
    cause: str = ""
    """The span that caused it, empty where the user did."""
    continues: str = ""
    """The turn whose conversation it takes up without a new prompt, empty where it has one."""


class TurnEnded(msgspec.Struct, frozen=True, omit_defaults=True):
    """A turn ended. What it cost is folded from its spans."""

    outcome: str
    """`ok`, `interrupted`, `iteration_limit`, `budget_exhausted`, `error`."""
    reason: str = ""
    """A code that says more: of the failure (`unauthorized`), of the ceiling (`cost`)."""
    error: str = ""
    """sha256 of the text of the error, empty without one."""


class CallReference(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call that a message makes."""

    id: str
    """As the model named it; unique within the run (a repeated one gets a suffix when it is stored)."""
    name: str
    """The tool that is asked for."""


class MessageAdded(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message joined the conversation."""

    role: str
    """`user`, `assistant`, `tool`."""
    blob: str
    """sha256 of the message: JSON of ledger.wire.conversation.Message."""
    size_bytes: int
    """Of that JSON."""
    calls: list[CallReference] = []
    """The tool calls of an assistant message, in order."""
    answers: str = ""
    """The call that a tool message answers."""
    partial: bool = False
    """Its stream was cut: this is what had arrived. It is kept, and not sent again."""


class InputReceived(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something from outside of the stream that decisions depend on."""

    what: str
    """`configuration`, `tools`, `prompt` (the system's), `stop`, `limit`, `workspace`."""
    blob: str = ""
    """sha256 of its text."""
    reason: str = ""
    """A code: of a stop, who asked (`user`, `signal`, `deadline`); of a limit, which."""
    values: msgspec.Raw = _EMPTY
    """Of a configuration: its numbers and identifiers, as a JSON object."""


class ContextAssembled(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the next requests show to the model, written as the difference to an earlier one."""

    base: int = 0
    """The version of the `context.assembled` of this stream that it continues, 0 for none."""
    kept: int = 0
    """How many messages of the base it begins with."""
    added: list[str] = []
    """sha256 of each message after those."""
    system: str = ""
    """sha256 of the system prompt, empty where it is the base's."""
    tools: str = ""
    """sha256 of the JSON list of tool schemas, empty where it is the base's."""
    tools_bytes: int = 0
    """How long that list is, so that what the definitions cost can be told."""


class RequestSent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A request is about to leave. The envelope's `span` is its id."""

    call: int
    """The logical call: 1, 2, 3 ... within the turn; attempts of one call share it."""
    attempt: int
    """1, 2, 3 ... within the logical call."""
    kind: str = "first"
    """`first`, `retry`, `fallback`."""
    provider: str
    """Whose endpoint is asked; its host where it has no name."""
    model: str
    """The model that is asked."""
    protocol: str
    """`openai-chat`, `anthropic`, ..."""
    endpoint: str
    """Scheme, host, port and path, without user, password and query."""
    context: int
    """The version of the `context.assembled` that it shows."""
    parameters: msgspec.Raw = _EMPTY
    """JSON of ledger.wire.conversation.Parameters."""
    body_sha256: str
    """Of the exact bytes, which can be made again from context and parameters."""
    body_bytes: int
    """How long those bytes are."""
    stream: bool = True
    """Whether the answer is asked for in pieces."""
    waited_us: int = 0
    """*Measured* or by the wall: how long the call waited before this attempt (backoff)."""
    quote: str = ""
    """The quote in force for the model asked, by name; empty where no price is known."""


class RequestEnd(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What all ends of a request have in common. Exactly one end a request."""

    status: int = 0
    """HTTP status, 0 where no answer began."""
    reason: str = ""
    """A code: of an answer, its finish reason; of a failure or cut, what happened."""
    request_id: str = ""
    """The provider's id of the request."""
    response_id: str = ""
    """The provider's id of the response."""
    model: str = ""
    """The model that answered, as the provider names it."""
    tier: str = ""
    """The service tier that the provider names."""
    protocol: str = ""
    """As the request's: what its usage means depends on it."""
    usage: list[msgspec.Raw] = []
    """Frames `{"at", "usage", "event"?, "frame"?}` as they arrived: see ledger.wire.dialects.read."""
    quote: str = ""
    """The quote that prices it, by name; empty where no price is known."""
    raw: str = ""
    """sha256 of the raw response, masked."""
    error: str = ""
    """sha256 of the text of the error."""
    ttft_us: int | None = None
    """*Measured*: from the request's leaving to the first byte of content; None for none."""
    ran_us: int | None = None
    """*Measured*: from the request's leaving to its end; None where the process died."""
    retry_after_us: int | None = None
    """What the provider asked to wait, None where it did not."""
    retryable: bool = False
    """Whether the failure is of a kind that may pass, by its status or the type of the exception."""
    unbilled: bool = False
    """The provider says that it does not charge for this."""


class RequestAnswered(RequestEnd, frozen=True, omit_defaults=True, kw_only=True):
    """The response came to its proper end."""


class RequestFailed(RequestEnd, frozen=True, omit_defaults=True, kw_only=True):
    """No response, or one that is an error."""


class RequestCut(RequestEnd, frozen=True, omit_defaults=True, kw_only=True):
    """A response began and did not come to its proper end. What had arrived is kept."""


class RequestCancelled(RequestEnd, frozen=True, omit_defaults=True, kw_only=True):
    """We ended it: `reason` says why (`user`, `signal`, `deadline`)."""


class RequestLost(RequestEnd, frozen=True, omit_defaults=True, kw_only=True):
    """The process that sent it is gone; closed by the next holder of the claim."""


class RetryScheduled(msgspec.Struct, frozen=True, omit_defaults=True):
    """Another attempt of a logical call was decided. The envelope's `span` is the attempt that did not succeed."""

    reason: str
    """The code of what happened to that attempt."""
    delay_us: int
    """How long to wait, jitter included."""
    until: int
    """When the wait is over by the wall clock, microseconds UTC: a later process waits for the rest only."""
    retry_after_us: int | None = None
    """What the provider asked for, None where it did not."""


class FallbackTaken(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rest of the turn asks another model."""

    before: str
    """The model that was asked."""
    after: str
    """The model that is asked from now on."""
    reason: str
    """The code of what happened to the last attempt."""


class ToolCalled(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool is about to run. The envelope's `span` is its id."""

    tool: str
    """Its name, as the model wrote it."""
    call: str
    """The call of the assistant message that it answers."""
    arguments: str
    """sha256 of the arguments as the model wrote them."""
    arguments_bytes: int
    """How long they are in UTF-8."""


class ToolReturned(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool ended. Exactly one end a call."""

    status: str
    """`ok`, `error`, `refused`, `denied`, `timed_out`, `cancelled`, `lost`."""
    result: str
    """sha256 of the text that the model gets."""
    result_bytes: int
    """How long it is in UTF-8."""
    truncated: bool = False
    """Whether something was left out of that text."""
    exit_code: int | None = None
    """Of a command, None where nothing exited."""
    waited_us: int | None = None
    """*Measured*: how long it waited for its turn. What it waited for an approval stands in that one's span."""
    ran_us: int | None = None
    """*Measured*: how long it worked; None where the process died."""


class ApprovalAsked(msgspec.Struct, frozen=True, omit_defaults=True):
    """Somebody is asked whether a call may run. The envelope's `span` is the question's."""

    call: str
    """The tool call that waits for the answer."""
    tool: str
    """The tool that it is for."""
    what: str
    """sha256 of what is shown."""
    reason: str
    """A code: why it is asked."""


class ApprovalAnswered(msgspec.Struct, frozen=True, omit_defaults=True):
    """The question was answered."""

    answer: str
    """`allowed` or `denied`."""
    by: str
    """`user`, `policy`, `nobody` (there was nobody to ask)."""
    scope: str = "once"
    """`once`, or `session`: equal calls are not asked again."""
    waited_us: int | None = None
    """*Measured*."""


class GateRefused(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something was refused before it had any effect."""

    gate: str
    """`budget`, `paths`, `approval`, `tools`."""
    rule: str
    """Which rule of the gate."""
    reason: str
    """A code."""
    tool: str = ""
    """The tool that was refused, empty where a request was."""
    call: str = ""
    """The tool call that was refused, empty where a request was."""
    text: str = ""
    """sha256 of what is said about it."""
