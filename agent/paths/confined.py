"""Opening below a folder's handle so that nothing outside can be reached: the check and the open are one step.

On Linux the kernel confines the open (openat2 with RESOLVE_BENEATH and RESOLVE_NO_MAGICLINKS). Where it lacks that
call, and where a link needs a closer look, the path is walked here, component by component: each is opened without
following links, relative to the handle of the one before, and a link is followed by reading it and starting again.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple

from agent.paths.kernel import kernel_open
from agent.paths.refusal import PathRefused

O_PATH = getattr(os, "O_PATH", 0)
_FOLDER = O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_MOST_LINKS = 40
_TRIES = 64


class Spot(NamedTuple):
    """A name in a folder that lies in the workspace. The handle belongs to whoever holds the spot."""

    folder: int
    name: str
    """No link where it was looked at; `.` for the workspace itself."""


class Walk:
    """One path being walked below a workspace's handle."""

    def __init__(self, handle: int, root: str, path: str) -> None:
        self._handle, self._root, self._path = handle, root, path
        self._links = 0

    def spot(self, parts: list[str], *, make_folders: bool = False) -> Spot:
        """Return where the path leads, every link followed within the workspace.

        The last name may be missing; with `make_folders` the folders before it may be, and are made.
        Raises PathRefused where a link leads out or nowhere, OSError where a folder is missing.
        """
        through_link = False  # whether the last name was reached by a link: then it must be there
        while True:
            place, here = os.dup(self._handle), list[str]()
            try:
                for index, name in enumerate(parts[:-1]):
                    target = self._link(place, name)
                    if target is not None:
                        parts = [*self._follow(here, target), *parts[index + 1 :]]
                        break
                    below = self._enter(place, name, make_folders and not through_link)
                    os.close(place)
                    place = below
                    here.append(name)
                else:
                    last = parts[-1] if parts else "."
                    target = self._link(place, last)
                    if target is None:
                        if through_link and not _there(place, last):
                            raise self._dangling()
                        kept, place = place, -1
                        return Spot(kept, last)
                    parts, through_link = self._follow(here, target), True
            except FileNotFoundError:
                if through_link:
                    raise self._dangling() from None
                raise
            finally:
                if place >= 0:
                    os.close(place)

    def _dangling(self) -> PathRefused:
        problem = f"{self._path} is a link to something that is not there"
        return PathRefused("dangling_link", problem, "name the file that you mean, or make it first")

    def _link(self, place: int, name: str) -> str | None:
        """Return what a link says, None for what is no link or is not there."""
        try:
            return os.readlink(name, dir_fd=place)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def _enter(self, place: int, name: str, make: bool) -> int:
        try:
            return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=place)
        except FileNotFoundError:
            if not make:
                raise
        try:
            os.mkdir(name, dir_fd=place)
        except FileExistsError:
            pass  # somebody else made it just now
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=place)

    def _follow(self, here: list[str], target: str) -> list[str]:
        """Return the parts, from the root, of where a link in a folder leads. `here` has no links, so `..` is exact."""
        self._links += 1
        if self._links > _MOST_LINKS:
            raise PathRefused(
                "too_many_links", f"{self._path} leads through more than {_MOST_LINKS} links", "name the file itself"
            )
        parts = below(self._root, target) if target.startswith("/") else resolved([*here, *target.split("/")])
        if parts is None:
            raise PathRefused(
                "link_outside",
                f"{self._path} leads through a link to {target}, outside of the workspace",
                f"use files below {self._root} only",
            )
        return parts


def _there(place: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def resolved(parts: list[str]) -> list[str] | None:
    """Return parts without `.` and `..`, None where they climb above their root."""
    kept: list[str] = []
    for part in parts:
        if part == "..":
            if not kept:
                return None
            kept.pop()
        elif part and part != ".":
            kept.append(part)
    return kept


def below(root: str, path: str) -> list[str] | None:
    """Return the parts of an absolute path below a root, compared by whole names, None where it is not below."""
    parts, base = resolved(path.split("/")), root.strip("/").split("/")
    return parts[len(base) :] if parts is not None and parts[: len(base)] == base else None


def open_below(handle: int, root: str, path: str, parts: list[str], flags: int) -> int:
    """Open what lies at parts below a workspace's handle; return a descriptor. Raises PathRefused, OSError."""
    try:
        return kernel_open(handle, "/".join(parts) or ".", flags)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.ELOOP, errno.ENOSYS, errno.EAGAIN):
            raise
    for attempt in range(_TRIES):
        spot = Walk(handle, root, path).spot(parts)
        try:
            found = os.open(spot.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=spot.folder)
            if not (flags & O_PATH and stat.S_ISLNK(os.fstat(found).st_mode)):
                return found
            os.close(found)  # such a handle may be of a link itself
        except OSError as error:
            if error.errno != errno.ELOOP or attempt == _TRIES - 1:
                raise
        finally:
            os.close(spot.folder)
        # It became a link since it was looked at: look again.
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
