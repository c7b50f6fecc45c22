"""The files below a folder, in a fixed order and within limits, with what was left out counted."""

from __future__ import annotations

import os
from collections.abc import Callable

from agent.paths import PathRefused
from agent.tools.threads import Watch
from agent.tools.tool import ToolContext


class Skipped:
    """What a search did not look at, and why."""

    def __init__(self) -> None:
        self.folders: dict[str, int] = {}
        """Folders of the skip list by name."""
        self.large = self.binary = self.links = self.special = self.unreadable = 0
        self.ended_by = ""
        """Why the search ended before everything was looked at, empty where it did not."""

    def note(self, large_bytes: int = 0) -> str:
        """Return a sentence of it, empty where nothing was skipped."""
        names = ", ".join(sorted(self.folders))
        said = [
            (sum(self.folders.values()), f"folders of the skip list ({names}; name one in path to search it)"),
            (self.large, f"files over {large_bytes} bytes"),
            (self.binary, "binary files"),
            (self.links, "links"),
            (self.special, "devices, FIFOs or sockets"),
            (self.unreadable, "unreadable files or folders"),
        ]
        parts = [f"{count} {what}" for count, what in said if count]
        sentences = [f"skipped: {', '.join(parts)}"] if parts else []
        if self.ended_by:
            sentences.append(f"not everything was looked at: {self.ended_by}; name a smaller folder in path")
        return "; ".join(sentences)


def files(
    context: ToolContext,
    start: str,
    watch: Watch,
    skipped: Skipped,
    *,
    links: bool,
    enter: Callable[[str], bool] = lambda folder: True,
) -> list[str]:
    """Return the files below a folder of the workspace, as paths from the workspace, sorted.

    No link is followed; with `links` they are listed. `enter` is asked of each folder, by its path from the start.
    One folder is open at a time, so a tree may be as deep as it likes. Raises PathRefused, OSError for the start.
    """
    found: list[str] = []
    base = context.workspace.name(start)
    prefix = "" if base == "." else base + "/"
    waiting = [""]
    limits = context.limits
    while waiting:
        if watch.time_is_over:
            skipped.ended_by = f"{limits.walk_seconds:g} s had passed"
            break
        folder = waiting.pop()
        names, below = _entries(context, prefix + folder or ".", watch, skipped, first=not folder, links=links)
        found.extend(f"{prefix}{folder}{name}" for name in names)
        if len(found) >= limits.walk_files:
            skipped.ended_by = f"there are more than {limits.walk_files} files"
            del found[limits.walk_files :]
            break
        for name in reversed(below):
            if name in context.skipped_folders:
                skipped.folders[name] = skipped.folders.get(name, 0) + 1
            elif enter(folder + name):
                waiting.append(f"{folder}{name}/")
    found.sort()
    return found


def _entries(
    context: ToolContext, path: str, watch: Watch, skipped: Skipped, *, first: bool, links: bool
) -> tuple[list[str], list[str]]:
    """Return the files and the folders of one folder, both sorted."""
    names: list[str] = []
    below: list[str] = []
    try:
        handle = context.workspace.open_folder(path)
    except (OSError, PathRefused):
        if first:
            raise
        skipped.unreadable += 1
        return names, below
    try:
        with os.scandir(handle) as entries:
            for entry in entries:
                watch.check()
                if len(names) + len(below) >= context.limits.folder_entries:
                    skipped.ended_by = f"{path} has more than {context.limits.folder_entries} entries"
                    break
                if entry.is_dir(follow_symlinks=False):
                    below.append(entry.name)
                elif entry.is_file(follow_symlinks=False):
                    names.append(entry.name)
                elif not entry.is_symlink():
                    skipped.special += 1
                elif links:
                    names.append(entry.name)
                else:
                    skipped.links += 1
    finally:
        os.close(handle)
    return sorted(names), sorted(below)
