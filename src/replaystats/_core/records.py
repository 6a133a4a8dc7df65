"""Records with a checksum: the one format of journals, saved buffers and checkpoints.

A record is a head (mark, kind, length and checksum of its content) and its content: settings as JSON, and
plain arrays of NumPy. Nothing is unpickled. A file that is replaced whole has one record or a few; a journal
grows by one at a time. A record that was cut short at the end is left out; damage anywhere else is refused.
"""

from __future__ import annotations

import io
import json
import os
import struct
import threading
import warnings
import weakref
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .errors import ReplayWarning, must_be
from .files import lock_file, open_own, replacing

HEAD = struct.Struct("<4sBQI")
MARK = b"RSJ1"
# Format: seconds after which what was handed to the system is brought to the disk.
SYNC_SECONDS = 1.0
# On Windows no other file can take the place of an open one.
CLOSES_FIRST = os.name == "nt"


class Record(NamedTuple):
    """Settings and arrays, with a number that says what they are."""

    kind: int
    about: Any
    arrays: dict[str, np.ndarray]

    def parts(self) -> list[bytes | memoryview]:
        """Return the record as it stands in a file; arrays that are contiguous are not copied."""
        content: list[bytes | memoryview] = [b""]
        for array in self.arrays.values():
            whole, head = np.asarray(array, order="C"), io.BytesIO()
            np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(whole))
            content += [head.getvalue(), whole.reshape(-1).view(np.uint8).data]
        text = json.dumps({"about": self.about, "arrays": list(self.arrays)}).encode()
        content[0] = struct.pack("<I", len(text)) + text
        checksum = 0
        for part in content:
            checksum = zlib.crc32(part, checksum)
        return [HEAD.pack(MARK, self.kind, sum(map(len, content)), checksum), *content]


def write_records(path: str | os.PathLike[str], records: list[Record]) -> None:
    """Write a file of records, whole or not at all."""
    with replacing(path) as file:
        for record in records:
            file.writelines(record.parts())


def read_records(
    path: str | os.PathLike[str], what: str, name: str = "path", *, mend: bool = False
) -> Iterator[Record]:
    """Return the records of a file but a last one that was not finished.

    Parameters
    ----------
    path : path
        A file that does not begin with a whole record is left alone.
    what : str
        What the file is to be, for messages.
    name : str
        What the user calls it.
    mend : bool
        Cut the last one off in the file; for whoever has locked it: another process may be writing it.
    """
    data = Path(path).read_bytes()
    if _content_at(data, 0) is None:
        raise ValueError(must_be(name, what, f'"{path}"', "It does not begin with a whole record."))
    position = number = 0
    while position < len(data):
        content = _content_at(data, position)
        if content is not None:
            try:
                record = _unpacked(data[position + 4], content)
            except Exception as error:  # whole, but not what this version writes
                raise unreadable(path, what, name, number) from error
            yield record
            position, number = position + HEAD.size + len(content), number + 1
            continue
        if _any_record_after(data, position):
            hint = "What follows cannot be trusted: restore the file, or load the last `save`."
            got = f'"{path}", damaged at byte {position} of {len(data)}'
            raise ValueError(must_be(name, f"{what} without damage", got, hint))
        msg = f"The last record of {path} was not finished: {len(data) - position} bytes of it are left out."
        if mend:
            os.truncate(path, position)
        warnings.warn(msg, ReplayWarning, stacklevel=3)
        return


def unreadable(path: str | os.PathLike[str], what: str, name: str, number: int) -> ValueError:
    """Return the error of a record that is whole, but does not say what it should."""
    return ValueError(must_be(name, what, f'"{path}", whose record {number} cannot be read'))


def _content_at(data: bytes, position: int) -> bytes | None:
    """Return the content of the whole, undamaged record at `position`, if there is one."""
    head = data[position : position + HEAD.size]
    if len(head) < HEAD.size:
        return None
    mark, _, length, checksum = HEAD.unpack(head)
    content = data[position + HEAD.size : position + HEAD.size + length]
    whole = mark == MARK and len(content) == length and zlib.crc32(content) == checksum
    return content if whole else None


def _any_record_after(data: bytes, position: int) -> bool:
    while (position := data.find(MARK, position + 1)) >= 0:
        if _content_at(data, position) is not None:
            return True
    return False


def _unpacked(kind: int, content: bytes) -> Record:
    (length,) = struct.unpack_from("<I", content)
    described, stream = json.loads(content[4 : 4 + length]), io.BytesIO(content)
    stream.seek(4 + length)
    read = np.lib.format.read_array
    return Record(
        kind, described["about"], {name: read(stream, allow_pickle=False) for name in described["arrays"]}
    )


_OPEN: weakref.WeakSet[Journal] = weakref.WeakSet()


def _let_go_in_child() -> None:
    """Close the journals of the parent in a forked child, so that it does not keep them locked."""
    for journal in list(_OPEN):
        journal._let_go()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)


class Journal:
    """A file of records that one object of one process makes longer; a forked child does not write to it.

    A record is handed to the system before `append` returns, so that a killed process loses none; once a
    second records are brought to the disk, so that a loss of power takes at most a second with it. One that
    could not be written (a full disk) is taken back. Where a change began whose record was not written (a
    full disk, an interrupt from the keyboard), the journal is `behind` until it is rewritten.

    Parameters
    ----------
    path : path
    name : str
        What the user calls it, for messages.
    """

    def __init__(self, path: str | os.PathLike[str], name: str = "journal") -> None:
        self.path = Path(path)
        self._name = name
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._not_on_disk: OSError | None = None
        self.behind = self._changing = False
        self._file, self._owner = -1, os.getpid()
        self._open()
        _OPEN.add(self)

    def __del__(self) -> None:
        self.close()

    def _open(self) -> None:
        file = open_own(self.path, os.O_WRONLY | os.O_APPEND)
        # A writer that has just rewritten the journal holds another file of this name.
        if not (lock_file(file) and os.path.samestat(os.fstat(file), os.stat(self.path))):
            os.close(file)
            hint = "Two writers in one journal would mix."
            raise ValueError(must_be(self._name, "free", f'"{self.path}", in use', hint))
        self._file, self._owner = file, os.getpid()

    @property
    def inherited(self) -> bool:
        """Whether this process is a forked child of the one that writes the journal."""
        return os.getpid() != self._owner

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return os.fstat(self._file).st_size

    def begin(self) -> None:
        """Say that a change begins, whose record is appended when it is made."""
        self.behind |= self._changing
        self._changing = True

    def append(self, record: Record) -> None:
        """Hand a record to the system, whole or not at all.

        Raises
        ------
        OSError
            If it could not be written, or an earlier one did not reach the disk.
        """
        with self._lock:
            data, size = memoryview(b"".join(record.parts())), self.size
            try:
                if self._not_on_disk is not None:
                    error, self._not_on_disk = self._not_on_disk, None
                    raise error
                while data:
                    data = data[os.write(self._file, data) :]
                self._changing = False
            except BaseException as error:
                os.ftruncate(self._file, size)
                if isinstance(error, OSError):
                    raise self._refusal(error) from error
                raise
            if self._timer is None:
                later = weakref.WeakMethod(self.sync)  # a journal that nobody has any more is closed at once
                self._timer = threading.Timer(SYNC_SECONDS, lambda: (sync := later()) and sync())
                self._timer.daemon = True
                self._timer.start()

    def sync(self) -> None:
        """Bring what was handed over to the disk."""
        with self._lock:
            self._timer = None
            if self._file >= 0:
                try:
                    os.fsync(self._file)
                except OSError as error:  # nobody listens here: the next record says it
                    self._not_on_disk = error

    def rewrite(self, records: list[Record]) -> None:
        """Put `records`, which say the same, in place of all records; at any time one of both is there."""
        with self._lock:
            try:
                if CLOSES_FIRST:
                    self._let_go()
                write_records(self.path, records)
            except OSError as error:
                raise self._refusal(error) from error
            finally:
                self._let_go()
                self._open()
            self.behind = self._changing = False

    def close(self) -> None:
        """Bring everything to the disk and close the file; a forked child only forgets it."""
        if self.inherited:
            return
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            try:
                if self._file >= 0:
                    os.fsync(self._file)
            finally:
                self._let_go()

    def _let_go(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def _refusal(self, error: OSError) -> OSError:
        reason = error.strerror or str(error)
        text = f"The journal {self.path} cannot be written: {reason}. The change itself is made, and is"
        return type(error)(error.errno, f"{text} written with the next one that can be")
