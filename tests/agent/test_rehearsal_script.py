"""Scripts: what is wrong with one is said with its place, and the demo's script does what it promises (LOOP-01)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rehearsal_client import ask, body_of, calls_of, said, user, with_result

from agent.rehearsal.script import DEMO, Script
from agent.rehearsal.server import Rehearsal
from ledger.errors import UsageError


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "script: Object missing required field `step`"),
        ("step = []", "script: step: has none"),
        ("[[step]\n", "script: is no TOML: .*line 1"),
        ("[[step]]\ntexd = 'a'", "script: step 1: Object contains unknown field `texd`"),
        ("[[step]]\n[[step]]\nfaults = [{ status = 503 }, { satus = 3 }]", "script: step 2, faults 2: .*unknown field"),
        ("[[step]]\ncalls = [{ arguments = {} }]", "script: step 1, calls 1: .*missing required field `tool`"),
        ("[[step]]\ncalls = [{ tool = 'a', arguments = {}, raw = '' }]", "step 1, call 1: has arguments and raw"),
        ("[[step]]\nfaults = [{}]", "step 1, fault 1: give one of status, cut_after"),
        ("[[step]]\nfaults = [{ status = 503, cut_after = 1 }]", "step 1, fault 1: give one of"),
        ("[[step]]\nfaults = [{ status = 99 }]", "step 1, fault 1: status 99: is none"),
        ("[[step]]\nfaults = [{ status = 503, times = 0 }]", "times is below 1"),
        ("[[step]]\nfaults = [{ cut_after = -1 }]", "a number is below 0"),
        ("[[step]]\nfaults = [{ send = 'love' }]", "step 1, faults 1, send: Invalid enum value 'love'"),
        ("[[step]]\nfaults = [{ status = 429, retry_after = 1, retry_at_seconds = 1 }]", "give one"),
        ("[[step]]\nusage = 'none'", "step 1, usage: Invalid enum value 'none'"),
        ("[[step]]\nusage = { inputs = 1 }", "step 1, usage: .*unknown field `inputs`"),
        ("[[step]]\ndelay_ms = -1", "step 1: a delay is below 0"),
        ("[[step]]\nrepeat = true\n[[step]]", "step 2: comes after one with repeat"),
        ("models = ['a']\n[[step]]\nmodel = 'b'", "step 1: model b is not among models"),
        ("[files]\n'../a' = ''\n[[step]]", "files, ../a: leaves the workspace"),
        ("[files]\n'/a' = ''\n[[step]]", "files, /a: leaves the workspace"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, told: str) -> None:
    """LOOP-27: one line that names the file and the line or the step."""
    with pytest.raises(UsageError, match=told) as error:
        Script.parse(text)
    assert "\n" not in str(error.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """LOOP-27: missing, a folder, no text."""
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    for name in ("missing.toml", "", "bytes.toml"):
        with pytest.raises(UsageError, match=r"cannot be read: .*: give the TOML file"):
            Script.load(tmp_path / name)


def test_the_script_of_the_docs_is_one() -> None:
    """LOOP-27: every example of docs/rehearsal.md is read as it stands there."""
    text = (Path(__file__).parents[2] / "docs" / "rehearsal.md").read_text()
    examples = [block.split("```")[0] for block in text.split("```toml\n")[1:]]
    assert len(examples) >= 2
    for example in examples:
        assert Script.parse(example).step


class Hands:
    """Runs the demo's tools for real, as simply as it goes."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace

    def do(self, name: str, arguments: dict[str, Any]) -> str:
        path = self.workspace / arguments.get("path", ".")
        match name:
            case "list_dir":
                return "\n".join(sorted(one.name for one in path.iterdir()))
            case "read_file":
                return path.read_text()
            case "edit_file":
                text = path.read_text()
                assert text.count(arguments["old_string"]) == 1
                path.write_text(text.replace(arguments["old_string"], arguments["new_string"]))
                return "edited"
            case "run_command":
                words = arguments["command"].split()
                assert words[0] == "python"
                ran = subprocess.run(
                    [sys.executable, *words[1:]], cwd=self.workspace, capture_output=True, text=True, check=False
                )
                return ran.stdout + ran.stderr
        raise AssertionError(name)


@pytest.mark.parametrize("protocol", ["openai-chat", "anthropic"])
def test_the_demo_mends_its_workspace(protocol: str, tmp_path: Path) -> None:
    """LOOP-20: a failing test is found and mended, past two 503s, one cut stream and one fallback."""
    script = Script.load(DEMO)
    script.unpack(tmp_path)
    hands, messages, results = Hands(tmp_path), [user(script.prompt)], []
    model = "rehearsed-1"
    with Rehearsal(script) as served:
        for _ in range(30):
            # Twice the same request is a retry: a whole answer that is cut is no JSON, and so is a refusal.
            got = ask(served, protocol, body_of(protocol, messages, model=model))
            if got.status == 503 or got.broken:
                if [one.seen.fault for one in served.requests[-3:]] == ["status_503"] * 3:
                    model = "rehearsed-2"
                continue
            calls = calls_of(protocol, got.json)
            if not calls:
                break
            results = [hands.do(name, arguments) for _, name, arguments in calls]
            messages += with_result(protocol, got.json, results[-1])
        faults = [one.seen.fault for one in served.requests if one.seen.fault]
        assert all(one.seen.status in (200, 503) for one in served.requests)
    assert faults == ["status_503"] * 2 + ["cut_close"] + ["status_503"] * 3
    final = said(protocol, got.json)
    assert "Ran 3 tests" in final and final.rstrip().endswith("OK")
    assert "Ran 3 tests" in json.dumps(messages) and "FAILED (failures=1)" in json.dumps(messages)
    assert "divmod" in (tmp_path / "shares" / "split.py").read_text()
    check = subprocess.run([sys.executable, "-m", "unittest"], cwd=tmp_path, capture_output=True, check=False)
    assert check.returncode == 0
