"""A file that is made or replaced as a whole: who looks, whatever was killed, finds the old one or the new one."""

from __future__ import annotations

import errno
import os
import stat
from types import TracebackType

from agent.paths.confined import Spot
from agent.paths.refusal import PathRefused

Version = tuple[int, int, int, int]
"""Device, inode, size in bytes, time of the last change in nanoseconds."""


class Replacing:
    """A name in a folder of the workspace, held by the folder's handle, so that no link can come between.

    The new content is written to a temporary file beside the old one and renamed over it. Owner and permissions are
    kept. A hard link of the old file elsewhere keeps the old content.
    """

    def __init__(self, spot: Spot, path: str) -> None:
        self._folder, self._name, self._path = spot.folder, spot.name, path
        folder = os.fstat(spot.folder)
        self.key = (folder.st_dev, folder.st_ino, spot.name)
        """The same for every path that leads to this file."""

    def close(self) -> None:
        """Give the handle back."""
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def __enter__(self) -> Replacing:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def version(self) -> Version | None:
        """Return which file is there now, None for none. Raises OSError."""
        try:
            found = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)

    def read(self, most_bytes: int) -> tuple[bytes, Version]:
        """Return the content, at most one byte more than asked for, and which file it was.

        Raises OSError, PathRefused.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        try:
            descriptor = os.open(self._name, flags, dir_fd=self._folder)
        except OSError as error:
            error.filename = self._path
            raise
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise PathRefused("special_file", f"{self._path} is no ordinary file any more", "look what is there")
            return file.read(most_bytes + 1), (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)

    def replace(self, content: bytes, *, unless_changed: Version | None = None) -> bool:
        """Put the content there; return False, with nothing changed, where the file is not the one that was read.

        Raises OSError, with nothing changed.
        """
        temporary = f".{self._name[:100]}.{os.urandom(6).hex()}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(temporary, flags, 0o666, dir_fd=self._folder)
        except OSError as error:
            error.filename = self._path
            raise
        try:
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                self._keep_owner_and_mode(descriptor)
                view = memoryview(content)
                while view:
                    view = view[file.write(view) :]
            if unless_changed is not None and self.version() != unless_changed:
                os.unlink(temporary, dir_fd=self._folder)
                return False
            os.rename(temporary, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError as error:
            try:
                os.unlink(temporary, dir_fd=self._folder)
            except OSError:
                pass
            error.filename, error.filename2 = self._path, None
            raise
        return True

    def _keep_owner_and_mode(self, descriptor: int) -> None:
        try:
            old = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return
        new = os.fstat(descriptor)
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            try:
                os.fchown(descriptor, old.st_uid, old.st_gid)
            except PermissionError:
                pass  # another user's file in a folder of ours: it becomes ours, as an editor does it
        try:
            os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
        except OSError as error:
            if error.errno != errno.EPERM:
                raise
