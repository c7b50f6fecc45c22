"""What a model takes: which name its output limit has, whether it takes a temperature, how it is asked to think.

The first rule of the table that fits wins. A model that no rule knows gets what the rest of its protocol does: the
usual name of the limit, a temperature where one is set, an effort where one is asked for. Neither of the last two is
sent unasked, and an endpoint that refuses them says so, which is better than to leave out silently what was asked.

Sources: OpenAI's API reference and "Reasoning models"; openai/openai-openapi issue 541 (no effort beside tools by chat
completions since gpt-5.2) and BerriAI/litellm pull request 34569 (gpt-5.6: it has to be `none`); Anthropic's "Extended
thinking", "Adaptive thinking" and the notes on Claude Opus 4.7 (no budget, no temperature); Groq's errors ("property
'reasoning_content' is unsupported"); Mistral's ("Tool call id ... must be a-z, A-Z, 0-9, with a length of 9"; 422 for
`stream_options.include_usage`, avante.nvim issue 2347) and its "Adjustable reasoning"; DeepSeek's "Thinking mode".
"""

from __future__ import annotations

import re
from typing import NamedTuple

ANTHROPIC_OUTPUT = 8_192
"""The Messages API wants a limit; every model of it since Claude 3.5 can give this much."""
OUTPUT_MOST = 32_000
"""More than this in one answer is asked for by nobody, and would have to be reserved and to fit into the window."""


class Takes(NamedTuple):
    """What is sent to a model, and under which name."""

    max_output_tokens: int | None = None
    """The output limit, None: not sent."""
    limit_name: str = "max_tokens"
    temperature: bool = True
    effort: bool = True
    """Whether it may be asked for much thought."""
    effort_beside_tools: str = "high"
    """What the effort is in a request with tools: `high`; empty, not sent; `none`, said even where none is asked."""
    thinking: str = "budget"
    """How the Messages API is asked to think: `budget`, `adaptive`."""
    thoughts: bool = True
    """Whether what it thought between tool calls may be sent back."""
    call_id: str = "long"
    """The ids of tool calls that it takes: `long`, 40 letters; `nine`, nine letters and digits."""
    ask_usage: bool = True
    """Whether usage has to be asked for in a stream; else it comes unasked, and the question is refused."""


class _Rule(NamedTuple):
    protocol: str
    provider: str
    """A regular expression of the whole name of a provider, empty for any."""
    model: str
    """A regular expression of how the model's name begins, behind the last slash."""
    takes: Takes


_CHAT, _ANTHROPIC = "openai-chat", "anthropic"
_REASONING = Takes(limit_name="max_completion_tokens", temperature=False, thoughts=False)
_PLAIN = Takes(limit_name="max_completion_tokens", effort=False, thoughts=False)
_MISTRAL = Takes(thoughts=False, call_id="nine", ask_usage=False)
_OWN = "openai|azure.*"
_RULES = (
    _Rule(_CHAT, _OWN, r"gpt-5(?:\.\d)?-chat|chatgpt", _PLAIN),
    _Rule(_CHAT, _OWN, r"gpt-5(?:$|-)|gpt-5\.1(?!\d)|o\d", _REASONING),
    _Rule(_CHAT, _OWN, r"gpt-5\.[2-5](?!\d)", _REASONING._replace(effort_beside_tools="")),
    _Rule(_CHAT, _OWN, r"gpt-5\.|gpt-[6-9]|gpt-\d\d|codex", _REASONING._replace(effort_beside_tools="none")),
    _Rule(_CHAT, _OWN, r"", _PLAIN),
    _Rule(_CHAT, "groq", r"gpt-oss", Takes(thoughts=False)),
    _Rule(_CHAT, "groq", r"", Takes(effort=False, thoughts=False)),
    _Rule(_CHAT, "mistral", r"mistral-(?:small-(?:latest|2[6-9]\d\d)|medium-(?:3[-.]5|2[6-9]\d\d))", _MISTRAL),
    _Rule(_CHAT, "mistral", r"", _MISTRAL._replace(effort=False)),
    _Rule(_CHAT, "xai", r"grok-3-mini", Takes(thoughts=False)),
    _Rule(_CHAT, "xai", r"", Takes(effort=False, thoughts=False)),
    _Rule(_CHAT, "deepseek", r"deepseek-(?:v\d|flash|pro)", Takes()),
    _Rule(_CHAT, "deepseek", r"", Takes(effort=False)),
    # OpenAI's models by whoever else serves them, by their names.
    _Rule(_CHAT, "", r"gpt-[34]|chatgpt", Takes(effort=False)),
    _Rule(_CHAT, "", r"gpt-[5-9]|o\d(?:$|-)", Takes(temperature=False)),
    _Rule(_ANTHROPIC, "", r"claude-(?:v?[12](?:\D|$)|instant|3-(?:opus|sonnet|haiku))", Takes(4_096, effort=False)),
    _Rule(_ANTHROPIC, "", r"claude-3[-.]5", Takes(effort=False)),
    _Rule(_ANTHROPIC, "", r"claude-(?:3[-.]7|(?:opus|sonnet|haiku)-4(?:[-.][0-5])?(?:$|[@:]|-\d{8}|-latest))", Takes()),
    _Rule(_ANTHROPIC, "", r"claude-(?:opus|sonnet|haiku)-4[-.]6", Takes(thinking="adaptive")),
    _Rule(_ANTHROPIC, "", r"claude-", Takes(thinking="adaptive", temperature=False)),
)


def takes(provider: str, model: str, protocol: str, max_output: int | None, context_window: int | None = None) -> Takes:
    """Return what a model takes.

    `max_output` and `context_window` are what the price data says (tokens), None where it says nothing: then no limit
    is sent, but to the Messages API, which wants one. What is sent leaves half of the window to the conversation.
    """
    name = model.rpartition("/")[2].lower()
    found = next((rule.takes for rule in _RULES if _fits(rule, provider.lower(), name, protocol)), Takes())
    if max_output is None and protocol == _ANTHROPIC:
        max_output = found.max_output_tokens or ANTHROPIC_OUTPUT
    if max_output is not None:
        max_output = max(1, min(max_output, OUTPUT_MOST, (context_window or 2 * OUTPUT_MOST) // 2))
    return found._replace(max_output_tokens=max_output)


def _fits(rule: _Rule, provider: str, name: str, protocol: str) -> bool:
    if rule.protocol != protocol or re.match(rule.model, name) is None:
        return False
    return not rule.provider or re.fullmatch(rule.provider, provider) is not None
