"""Why a path is not opened."""

from __future__ import annotations


class PathRefused(Exception):
    """A path that the gate does not let through. Nothing was opened, made or changed."""

    def __init__(self, rule: str, problem: str, step: str) -> None:
        super().__init__(f"{problem}: {step}")
        self.rule = rule
        """`empty`, `nul`, `home`, `outside`, `link_outside`, `dangling_link`, `special_file`, `too_many_links`."""


class WorkspaceGone(Exception):
    """The workspace was removed or replaced while it was worked in."""

    def __init__(self, root: str) -> None:
        super().__init__(
            f"the workspace {root} was removed or replaced: no file tool can work in it any more; "
            "tell the user, who can put it back or start in another"
        )
