"""Failures that a model can do something about. Each says what is wrong and what to do next (TOOL-47)."""

from __future__ import annotations

import errno
import os


class ToolError(Exception):
    """A tool cannot do what is asked."""

    def __init__(self, problem: str, step: str) -> None:
        assert step, "an error says what to do next"
        super().__init__(f"{problem}: {step}")


_STEPS = {
    errno.ENOENT: "look with list_dir or glob what is there",
    errno.ENOTDIR: "look with list_dir or glob what is there",
    errno.EISDIR: "name a file in it; list_dir shows them",
    errno.EACCES: "tell the user, who can change its permissions",
    errno.EPERM: "tell the user, who can change its permissions",
    errno.EROFS: "tell the user: it lies on a read-only file system",
    errno.ENOSPC: "free some space first, or tell the user",
    errno.EDQUOT: "free some space first, or tell the user",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.EMFILE: "try again when other calls have ended",
    errno.ENFILE: "try again when other calls have ended",
}


def of_os_error(error: OSError, name: str = "") -> ToolError:
    """Return the error that a system call's failure is, for the path that the model named."""
    code = error.errno or 0
    said = os.strerror(code) if code else str(error) or type(error).__name__
    step = _STEPS.get(code, "try another way, or tell the user")
    return ToolError(f"{name}: {said}" if name else said, step)
