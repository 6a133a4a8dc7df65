"""The one way in which a file is written: whole or not at all, whatever stops the program.

The bytes go to a new file beside the target, reach the disk, and only then take its name. The new file has a
name that nobody can guess and is created exclusively, so that two writers never share one and a link that
somebody put there is not followed.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_OWN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | _OWN
# Format: A writer has locked its file by then.
_SECONDS_TO_LOCK = 2.0
_RANDOM = re.compile("[0-9a-f]{16}")
# Format: the last one but one that a C runtime of Windows can lock.
_LOCKED_BYTE = 2**31 - 2


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of `path` when the block ends well, and vanishes when it does not.

    What killed programs left of earlier attempts is removed. The permissions of an existing file are kept. If
    `path` is a link, the link is replaced, not what it points to. Devices and pipes are refused.

    Parameters
    ----------
    path : path
        The file to write, in an existing folder.

    Yields
    ------
    file
        Open for bytes, to write and to read.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with replacing(f"{folder}/a.txt") as file:
    ...         _ = file.write(b"whole")
    ...     os.listdir(folder), Path(folder, "a.txt").read_bytes()
    (['a.txt'], b'whole')
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    if target.parent == Path("/dev") or (target.exists() and not target.is_file()):
        raise OSError(errno.EINVAL, "it is a device or a pipe, which no file can replace", str(target))
    _remove_abandoned(target)
    partial = target.with_name(f"{_stem(target)}{secrets.token_hex(8)}.part")
    mode = _mode_of(target)
    try:
        descriptor = os.open(partial, _NEW, 0o666 if mode is None else mode)
    except OSError as error:  # said about the file that was asked for
        raise type(error)(error.errno, error.strerror, str(target)) from error
    try:
        with os.fdopen(descriptor, "w+b") as file:
            lock_file(descriptor)  # so that nobody takes it for one that a killed program left
            if mode is not None:
                os.chmod(partial, mode)  # what the umask took away
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
    _sync_folder(target.parent)


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` to `path`, whole or not at all."""
    with replacing(path) as file:
        file.write(data)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` to `path` in UTF-8, whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


def open_own(path: str | os.PathLike[str], flags: int) -> int:
    """Return a descriptor of a file that grows in place; where a link has its name, it is not followed.

    Raises
    ------
    OSError
        If the file cannot be opened, or is a link to another one.
    """
    try:
        return os.open(path, flags | _OWN, 0o666)
    except OSError as error:
        reason = "it is a link to another file" if error.errno == errno.ELOOP else error.strerror
        raise type(error)(error.errno, reason, str(path)) from error


def lock_file(descriptor: int) -> bool:
    """Lock an open file for this process alone, until it is closed; say whether that worked."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        # There a locked byte can neither be read nor written by others: one far behind the content.
        place = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        finally:
            os.lseek(descriptor, place, os.SEEK_SET)
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _stem(target: Path) -> str:
    return f".{target.name[:64]}."


def _remove_abandoned(target: Path) -> None:
    """Remove what killed programs left of earlier attempts: files that nobody holds locked."""
    with suppress(OSError):
        for name in os.listdir(target.parent):
            inner = name.removeprefix(_stem(target)).removesuffix(".part")
            if name != f"{_stem(target)}{inner}.part" or not _RANDOM.fullmatch(inner):
                continue
            with suppress(OSError):
                descriptor = os.open(target.parent / name, os.O_RDWR | _OWN)
                try:
                    old = time.time() - os.fstat(descriptor).st_mtime > _SECONDS_TO_LOCK
                    free = old and lock_file(descriptor)
                finally:
                    os.close(descriptor)
                if free:
                    os.unlink(target.parent / name)


def _mode_of(target: Path) -> int | None:
    """Return the permissions of a file that is there; None for a link, or where there is none."""
    try:
        found = target.lstat().st_mode
    except OSError:
        return None
    return stat.S_IMODE(found) if stat.S_ISREG(found) else None


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk as well, where the system lets us."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
