"""Nothing outside of the workspace is opened, made or changed, whatever a path says and whatever is swapped."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from calling import descriptors, names

from agent.paths import PathRefused, Workspace, WorkspaceGone, confined
from ledger.errors import UsageError

SECRET = "the secret outside"


@pytest.fixture(params=["kernel", "walk"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kernel confines the open, or it lacks the call and the path is walked."""
    if request.param == "walk":

        def missing(handle: int, path: str, flags: int) -> int:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

        monkeypatch.setattr(confined, "kernel_open", missing)
    return str(request.param)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A workspace `in` beside a folder `out` with a secret."""
    inside, outside = tmp_path / "in", tmp_path / "out"
    (inside / "folder").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret").write_text(SECRET)
    (inside / "file").write_text("inside")
    (inside / "folder" / "deep").write_text("deep inside")
    return inside


def read(workspace: Workspace, path: str) -> str:
    with os.fdopen(workspace.open_for_reading(path), "rb") as file:
        return file.read().decode()


def rule(action: Callable[[], object]) -> str:
    with pytest.raises(PathRefused) as refused:
        action()
    assert ": " in str(refused.value)
    return refused.value.rule


def test_paths_inside_are_opened_relative_absolute_and_through_links(place: Path, way: str) -> None:
    """SEC-30: one function opens what lies in the workspace, links that stay in it included."""
    (place / "link").symlink_to("folder")
    (place / "absolute").symlink_to(place / "folder" / "deep")
    (place / "folder" / "up").symlink_to("../file")
    with Workspace(place) as workspace:
        for path in ("file", "./file", "folder/../file", str(place / "file"), "folder/up", "link/up"):
            assert read(workspace, path) == "inside"
        for path in ("folder/deep", "link/deep", "absolute"):
            assert read(workspace, path) == "deep inside"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("../out/secret", "outside"),
        ("folder/../../out/secret", "outside"),
        ("../../../../etc/passwd", "outside"),
        ("/etc/passwd", "outside"),
        ("/", "outside"),
        ("..", "outside"),
        ("/proc/self/root/etc/passwd", "outside"),
        ("~", "home"),
        ("~/.ssh/id_rsa", "home"),
        ("~root/.bashrc", "home"),
        ("", "empty"),
        ("file\0.txt", "nul"),
    ],
)
def test_paths_that_leave_by_their_text(place: Path, path: str, expected: str) -> None:
    """SEC-31, SEC-48, SEC-49, SEC-50: refused for reading, listing and writing alike, before anything is opened."""
    with Workspace(place) as workspace:
        assert rule(lambda: workspace.open_for_reading(path)) == expected
        assert rule(lambda: workspace.open_folder(path)) == expected
        assert rule(lambda: workspace.replacing(path, make_folders=True)) == expected


def test_a_neighbour_with_the_same_beginning_is_outside(place: Path) -> None:
    """SEC-36: names are compared whole."""
    (place.parent / "in-other").mkdir()
    with Workspace(place) as workspace:
        assert rule(lambda: workspace.open_folder(str(place.parent / "in-other"))) == "outside"


def test_the_whole_disk_is_no_workspace(tmp_path: Path) -> None:
    """SEC-36: neither by name nor through a link."""
    (tmp_path / "disk").symlink_to("/")
    for root in (Path("/"), tmp_path / "disk", Path("/tmp/..")):
        with pytest.raises(UsageError, match="whole disk"):
            Workspace(root)
    with pytest.raises(UsageError, match="give a folder"):
        Workspace(tmp_path / "missing")


def test_links_that_leave(place: Path, way: str) -> None:
    """SEC-32, SEC-33: to a file, to a folder, a new file below one, a chain, by absolute and relative targets."""
    (place / "file-link").symlink_to(place.parent / "out" / "secret")
    (place / "folder-link").symlink_to("../out")
    (place / "chain").symlink_to("folder-link")
    (place / "magic").symlink_to("/proc/self/root/etc/passwd")
    (place / "climbing").symlink_to("folder/../../out/secret")
    with Workspace(place) as workspace:
        for path in ("file-link", "folder-link/secret", "chain/secret", "magic", "climbing"):
            assert rule(lambda path=path: workspace.open_for_reading(path)) == "link_outside"
            assert rule(lambda path=path: workspace.replacing(path)) == "link_outside"
        for path in ("folder-link/new", "chain/new", "folder-link/a/b"):
            assert rule(lambda path=path: workspace.replacing(path, make_folders=True)) == "link_outside"
        assert rule(lambda: workspace.open_folder("folder-link")) == "link_outside"
    assert names(place.parent / "out") == ["secret"]
    # The twin: without the gate each of them does lead out.
    assert (place / "file-link").read_text() == (place / "chain" / "secret").read_text() == SECRET
    (place / "chain" / "new").write_text("x")
    assert (place.parent / "out" / "new").exists()


def test_dangling_and_endless_links(place: Path, way: str) -> None:
    """SEC-33: a link to what is not there makes nothing, a link to itself ends."""
    (place / "dangling").symlink_to("folder/missing")
    (place / "far").symlink_to("missing/missing")
    (place / "loop").symlink_to("loop")
    with Workspace(place) as workspace:
        assert rule(lambda: workspace.replacing("dangling")) == "dangling_link"
        assert rule(lambda: workspace.replacing("far", make_folders=True)) == "dangling_link"
        assert rule(lambda: workspace.replacing("loop")) == "too_many_links"
        assert rule(lambda: workspace.open_for_reading("loop")) == "too_many_links"
    assert not (place / "missing").exists()


def test_magic_links_lead_nowhere(way: str) -> None:
    """SEC-32: `root` and `cwd` of a process are links that the kernel follows past every name."""
    with Workspace(Path(f"/proc/{os.getpid()}")) as workspace:
        assert rule(lambda: workspace.open_for_reading("root/etc/passwd")) == "link_outside"
        assert rule(lambda: workspace.open_folder("cwd")) == "link_outside"
    assert Path(f"/proc/{os.getpid()}/root/etc/passwd").exists()


def test_devices_fifos_and_sockets_are_refused_at_once(place: Path, way: str) -> None:
    """SEC-32: nothing waits for the other end of a FIFO, and a device is not opened."""
    os.mkfifo(place / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(place)
        server.bind("socket")
    began = time.monotonic()
    with Workspace(place) as workspace:
        for path in ("fifo", "socket"):
            assert rule(lambda path=path: workspace.open_for_reading(path)) == "special_file"
            assert rule(lambda path=path: workspace.replacing(path)) == "special_file"
    with Workspace(Path("/dev")) as devices:
        assert rule(lambda: devices.open_for_reading("null")) == "special_file"
        assert rule(lambda: devices.replacing("full")) == "special_file"
    assert time.monotonic() - began < 2


def test_a_workspace_that_vanishes(place: Path, way: str) -> None:
    """SEC-30: a handle of a folder that is gone is not taken for the folder that stands there now."""
    workspace = Workspace(place)
    place.rename(place.parent / "moved")
    for action in (workspace.open_folder, workspace.open_for_reading, workspace.replacing):
        with pytest.raises(WorkspaceGone, match="removed or replaced"):
            action("file")
    place.mkdir()
    (place / "file").write_text("another")
    with pytest.raises(WorkspaceGone):
        workspace.open_for_reading("file")
    workspace.close()


def replace(workspace: Workspace, path: str, content: str) -> None:
    with workspace.replacing(path, make_folders=True) as replacing:
        assert replacing.replace(content.encode())


def test_files_are_replaced_whole_with_their_mode(place: Path) -> None:
    """SEC-30: made with folders before them; permissions stay; through a link inside, the file behind it changes."""
    (place / "file").chmod(0o751)
    (place / "link").symlink_to("folder/deep")
    with Workspace(place) as workspace:
        replace(workspace, "file", "new")
        replace(workspace, "a/b/c", "made")
        replace(workspace, "link", "through")
    assert (place / "file").read_text() == "new"
    assert (place / "file").stat().st_mode & 0o7777 == 0o751
    assert (place / "a" / "b" / "c").read_text() == "made"
    assert (place / "link").is_symlink()
    assert (place / "folder" / "deep").read_text() == "through"
    assert not list(place.rglob("*.tmp"))


def test_a_hard_link_outside_keeps_its_content(place: Path) -> None:
    """SEC-32: a file that is outside too, by another name, is not written through."""
    os.link(place.parent / "out" / "secret", place / "hard")
    with Workspace(place) as workspace:
        replace(workspace, "hard", "changed")
    assert (place.parent / "out" / "secret").read_text() == SECRET


def test_a_changed_file_is_not_replaced(place: Path) -> None:
    """CONC-13: what was read is compared before it is replaced."""
    with Workspace(place) as workspace, workspace.replacing("file") as replacing:
        content, version = replacing.read(100)
        assert content == b"inside"
        (place / "file").write_text("somebody's")
        assert not replacing.replace(b"mine", unless_changed=version)
        assert (place / "file").read_text() == "somebody's"
        assert replacing.replace(b"mine", unless_changed=replacing.version())
    assert names(place) == ["file", "folder"]


WITHOUT_RIGHTS = """
import os, sys
from pathlib import Path
from agent.paths import Workspace
workspace = Workspace(Path(sys.argv[1]))
os.close(workspace.open_folder('.'))  # everything is imported while it still can be
if os.getuid() == 0:
    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
for action in (lambda: workspace.open_for_reading("closed"), lambda: workspace.replacing("file").replace(b"x")):
    try:
        action()
    except PermissionError as error:
        print(type(error).__name__, error.filename)
"""


def test_missing_rights_are_an_error_that_names_the_path(place: Path) -> None:
    """TOOL-47: by the path that was asked for, not by a handle; nothing changes."""
    (place / "closed").write_text("x")
    (place / "closed").chmod(0)
    place.chmod(0o555)
    for folder in place.parents:  # another user may come to it
        if os.stat(folder).st_uid == os.getuid() and str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_RIGHTS, str(place)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    place.chmod(0o755)
    assert done.stdout.splitlines() == ["PermissionError closed", "PermissionError file"], done.stderr
    assert (place / "file").read_text() == "inside"


WRITER = """
import sys
from pathlib import Path
from agent.paths import Workspace
workspace = Workspace(Path(sys.argv[1]))
print("ready", flush=True)
while True:
    for letter in (b"a", b"b"):
        with workspace.replacing("file") as replacing:
            replacing.replace(letter * 3_000_000)
"""


def test_a_killed_writer_leaves_no_half_file(place: Path) -> None:
    """SEC-30: whoever looks after a kill finds the old file or the new one."""
    (place / "file").write_bytes(b"a" * 3_000_000)
    for delay in (0.0, 0.003, 0.007, 0.012):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(place)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
        )
        with child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(delay)
            child.kill()
        content = (place / "file").read_bytes()
        assert content in (b"a" * 3_000_000, b"b" * 3_000_000)


FLIPPER = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
one, other = (os.fsencode(name) for name in sys.argv[1:])
print("ready", flush=True)
while True:
    libc.renameat2(-100, one, -100, other, 2)  # RENAME_EXCHANGE: at every instant both names are there
"""


@contextmanager
def flipping(one: Path, other: Path) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-I", "-c", FLIPPER, str(one), str(other)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            yield
        finally:
            child.kill()


def naive(root: Path, path: str) -> Path | None:
    """Return a path that was checked before it is opened: what the gate is not."""
    whole = root / path
    return whole if whole.resolve().is_relative_to(root) else None


def test_a_swap_between_check_and_open_leaks_nothing(place: Path, way: str, soak: Any) -> None:
    """SEC-34: a folder is exchanged for a link to the outside all the time. Nothing outside is read or made."""
    outside = place.parent / "out"
    (place / "folder" / "secret").write_text("inside")
    (place / "link").symlink_to(outside)
    seen = {"inside": 0, "refused": 0}
    with Workspace(place) as workspace, flipping(place / "folder", place / "link"):
        for index in soak.rounds(1_000, 100_000):
            try:
                assert read(workspace, "folder/secret") == "inside"
                replace(workspace, f"folder/new/{index % 7}", "made")
                seen["inside"] += 1
            except (PathRefused, OSError) as error:
                assert isinstance(error, PathRefused) or error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR)
                seen["refused"] += 1
    assert names(outside) == ["secret"]
    assert all(seen.values()), seen


def test_the_twin_without_the_gate_leaks(place: Path) -> None:
    """SEC-34: the same swap, with a check before the open instead: the secret is read."""
    outside = place.parent / "out"
    (place / "folder" / "secret").write_text("inside")
    (place / "link").symlink_to(outside)
    until, leaked = time.monotonic() + 20, False
    with flipping(place / "folder", place / "link"):
        while not leaked and time.monotonic() < until:
            try:
                path = naive(place, "folder/secret")
                leaked = path is not None and path.read_text() == SECRET
            except OSError:
                pass  # the check itself stumbles over the swap
    assert leaked


def test_no_descriptor_is_left_open(place: Path, way: str) -> None:
    """SEC-30: neither by a success nor by a refusal."""
    (place / "link").symlink_to("/etc")
    with Workspace(place) as workspace:
        before = descriptors()
        for path in ("file", "folder", "link/passwd", "missing", "file/x", "../x", "folder/deep"):
            for action in (workspace.open_for_reading, workspace.open_folder):
                try:
                    os.close(action(path))
                except (PathRefused, OSError):
                    pass
            try:
                workspace.replacing(path).close()
            except (PathRefused, OSError):
                pass
        assert descriptors() == before
