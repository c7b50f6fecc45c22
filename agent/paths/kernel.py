"""The system call by which Linux confines an open: openat2(2)."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from functools import cache

_TRIES = 64
"""The kernel answers EAGAIN where something was renamed while it looked."""
_OPENAT2 = 437
"""The number of the call is the same on every architecture but alpha."""
_BENEATH, _NO_MAGICLINKS = 0x08, 0x02


def kernel_open(handle: int, path: str, flags: int) -> int:
    """Open a path below a handle; return a descriptor.

    Raises OSError: EXDEV where it would leave, ENOSYS where the kernel lacks the call (or a sandbox forbids it).
    """
    name = os.fsencode(path)
    for _ in range(_TRIES):
        found, code = _call()(handle, name, flags | os.O_CLOEXEC)
        if found >= 0:
            return found
        if code not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code), path)


@cache
def _call() -> Callable[[int, bytes, int], tuple[int, int]]:
    """Return what makes the call and gives (descriptor or -1, errno)."""
    if sys.platform != "linux":
        return lambda handle, name, flags: (-1, errno.ENOSYS)
    import ctypes  # costs every start 3 ms otherwise

    class How(ctypes.Structure):
        """`struct open_how` of linux/openat2.h."""

        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    libc = ctypes.CDLL(None, use_errno=True)
    size = ctypes.c_size_t(ctypes.sizeof(How))

    def call(handle: int, name: bytes, flags: int) -> tuple[int, int]:
        how = How(flags, 0, _BENEATH | _NO_MAGICLINKS)
        found = libc.syscall(_OPENAT2, handle, name, ctypes.byref(how), size)
        code = ctypes.get_errno()
        # A container's filter that does not know the call says EPERM; the kernel itself never does for a read.
        return found, errno.ENOSYS if code == errno.EPERM else code

    return call
