"""One run at a time in a folder."""

from __future__ import annotations

import os
from pathlib import Path

from replaystats.toolkit import must_be

FILE_NAME = ".lock"


class FolderLock:
    """Hold a folder until `release`, or until the process ends, however it ends.

    The operating system holds the lock, so that a killed run leaves none behind.

    Parameters
    ----------
    folder : Path
        Made if it is not there.

    Raises
    ------
    ValueError
        If the folder is a file, cannot be written, or is held by another run.
    """

    def __init__(self, folder: Path) -> None:
        if folder.exists() and not folder.is_dir():
            raise ValueError(must_be("--out", "a folder", f"the file {folder}"))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(folder / FILE_NAME, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            got = f"{folder} ({error.strerror or error})"
            raise ValueError(must_be("--out", "a folder that can be written", got)) from error
        if not _acquire(descriptor):
            holder = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            got = f"{folder}, in use by process {holder or '?'}"
            raise ValueError(must_be("--out", "a folder that no other run is using", got))
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Give the folder back; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        if getattr(self, "_descriptor", None) is not None:
            self.release()


def _acquire(descriptor: int) -> bool:
    """Lock an open file for this process alone; say whether that worked."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        # A byte far behind the text, so that others can read who holds the lock.
        os.lseek(descriptor, 1024, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
