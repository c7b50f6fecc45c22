"""The folder that a run works in, and every way in which its file tools reach what lies there (SEC-30)."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from types import TracebackType

from agent.paths import confined
from agent.paths.refusal import PathRefused, WorkspaceGone
from agent.paths.replacing import Replacing
from ledger.errors import UsageError


class Workspace:
    """A workspace, held by a handle: what is opened lies below it, whatever is renamed or linked meanwhile.

    A path is relative to it, or absolute and below it. `~` is never expanded. Links are followed as long as they stay
    inside. Devices, FIFOs and sockets are refused before they are opened, so that no open can wait.
    """

    def __init__(self, root: Path) -> None:
        """Raises UsageError for what is no folder, and for the whole disk (SEC-36)."""
        try:
            self.root = str(root.resolve(strict=True))
            if self.root == "/":
                raise UsageError("workspace /: is the whole disk: give the folder of your project")
            self._handle = os.open(self.root, confined.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise UsageError(f"workspace {root}: {error.strerror}: give a folder that is there") from error
        found = os.fstat(self._handle)
        self._identity = (found.st_dev, found.st_ino)
        self._given = os.path.abspath(root)

    def close(self) -> None:
        """Give the handle back. Nothing can be opened afterwards."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def parts(self, path: str) -> list[str]:
        """Return the names that lead to a path from the workspace, by its text alone. Raises PathRefused (SEC-31)."""
        step = f"use a path below {self.root}, relative to it"
        if not path:
            raise PathRefused("empty", "the path is empty", step)
        if "\0" in path:
            raise PathRefused("nul", "the path has a NUL character", step)
        if path.startswith("~"):
            raise PathRefused("home", f"{path}: ~ is not expanded, and a home is outside of the workspace", step)
        if path.startswith("/"):
            parts = confined.below(self.root, path)
            parts = confined.below(self._given, path) if parts is None else parts
        else:
            parts = confined.resolved(path.split("/"))
        if parts is None:
            raise PathRefused("outside", f"{path} is outside of the workspace", step)
        return parts

    def name(self, path: str) -> str:
        """Return a path as it is shown: relative to the workspace, `.` for itself. Raises PathRefused."""
        return "/".join(self.parts(path)) or "."

    def open_for_reading(self, path: str) -> int:
        """Open a regular file; return a descriptor to read from. Raises PathRefused, WorkspaceGone, OSError."""
        handle = self._open(path, confined.O_PATH)
        try:
            _check_regular(handle, path)
            if confined.O_PATH:  # so far nothing was opened: a FIFO has a writer waiting, a device may act
                return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            kept, handle = handle, -1
            return kept
        except OSError as error:
            error.filename = path
            raise
        finally:
            if handle >= 0:
                os.close(handle)

    def open_folder(self, path: str) -> int:
        """Open a folder; return a descriptor to list and to open from. Raises PathRefused, WorkspaceGone, OSError."""
        return self._open(path, os.O_RDONLY | os.O_DIRECTORY)

    def kind(self, path: str) -> int:
        """Return `st_mode` of what a path leads to. Raises PathRefused, WorkspaceGone, OSError."""
        handle = self._open(path, confined.O_PATH)
        try:
            return os.fstat(handle).st_mode
        finally:
            os.close(handle)

    def replacing(self, path: str, *, make_folders: bool = False) -> Replacing:
        """Return a file that is about to be made or replaced. Raises PathRefused, WorkspaceGone, OSError.

        The folders before it are made with `make_folders`. Nothing else is changed until `Replacing.replace`.
        """
        parts = self.parts(path)
        if not parts:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        self._still_there()
        try:
            spot = confined.Walk(self._handle, self.root, path).spot(parts, make_folders=make_folders)
        except OSError as error:
            error.filename = path
            raise
        try:
            found = os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)
        except FileNotFoundError:
            return Replacing(spot, path)
        except OSError:
            os.close(spot.folder)
            raise
        if spot.name != "." and stat.S_ISREG(found.st_mode):
            return Replacing(spot, path)
        os.close(spot.folder)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        raise special_file(path, found.st_mode)

    def _open(self, path: str, flags: int) -> int:
        parts = self.parts(path)
        self._still_there()
        try:
            # A FIFO is opened without waiting; the kernel takes such flags only where something is really opened.
            flags |= 0 if flags & confined.O_PATH else os.O_NONBLOCK | os.O_NOCTTY
            return confined.open_below(self._handle, self.root, path, parts, flags)
        except OSError as error:
            error.filename = path
            raise

    def _still_there(self) -> None:
        try:
            found = os.stat(self.root, follow_symlinks=False)
        except OSError:
            raise WorkspaceGone(self.root) from None
        if (found.st_dev, found.st_ino) != self._identity:
            raise WorkspaceGone(self.root)


def _check_regular(descriptor: int, path: str) -> None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        raise special_file(path, mode)


def special_file(path: str, mode: int) -> PathRefused:
    """Return the refusal of what is neither a file nor a folder."""
    kinds = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    what = kinds.get(stat.S_IFMT(mode), "no ordinary file")
    return PathRefused("special_file", f"{path} is {what}", "name an ordinary file")
