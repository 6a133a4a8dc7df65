"""The journal of a replay buffer: everything that changed it, in order, so that a crash loses nothing.

A record is a head (mark, kind, length and checksum of its content) and its content. It is handed to the
system in one call, so that a killed process loses none; once a second it is written to the disk, so that a
loss of power takes at most a second with it. A record that was cut short at the end is left out; damage
anywhere else is refused. A record that could not be written (a full disk) is taken back, and the next one
contains the whole state. Only the process that opened a journal writes to it: a forked child does not.
"""

from __future__ import annotations

import io
import json
import os
import struct
import threading
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .._core.errors import ReplayWarning, must_be
from .._core.files import lock_file, open_own, replacing

HEAD = struct.Struct("<4sBQI")
MARK = b"RSJ1"
SYNC_SECONDS = 1.0
STATE, ROWS, PRIORITIES, DRAW, END = range(5)
# Cost: journals of fewer bytes are not compacted.
SMALLEST_COMPACTED = 2**22
# On Windows no other file can take the place of an open one.
CLOSES_FIRST = os.name == "nt"


class Journal:
    """Records behind one another in a file that belongs to one buffer.

    Parameters
    ----------
    path : path
    called : str
        What the user calls it, for messages.
    """

    def __init__(self, path: str | os.PathLike[str], called: str = "journal") -> None:
        self.path = Path(path)
        self._called = called
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._not_on_disk: OSError | None = None
        self.behind = False  # a record is missing: the next one must be the whole state
        self._open()

    def _open(self) -> None:
        self._file = open_own(self.path, os.O_WRONLY | os.O_APPEND)
        self._owner = os.getpid()
        if not lock_file(self._file):
            os.close(self._file)
            hint = "Two buffers in one journal would mix."
            raise ValueError(must_be(self._called, "free", f'"{self.path}", in use', hint))
        self.size = os.fstat(self._file).st_size

    @property
    def inherited(self) -> bool:
        """Whether this process is a forked child of the one that writes the journal."""
        return os.getpid() != self._owner

    @classmethod
    def create(cls, path: str | os.PathLike[str], records: list[tuple[int, bytes]]) -> Journal:
        """Begin a journal with some records, where there is none."""
        if os.path.lexists(path):
            hint = "Go on with ReplayBuffer.recover(path), or choose another name."
            raise ValueError(must_be("journal", "a new file", f'"{path}", which is there', hint))
        with replacing(path) as file:
            file.write(b"".join(_framed(kind, content) for kind, content in records))
        return cls(path)

    def append(self, kind: int, content: bytes) -> None:
        """Hand one record to the system, whole or not at all.

        Raises
        ------
        OSError
            If it could not be written, or an earlier one did not reach the disk.
        """
        with self._lock:
            if self._not_on_disk is not None:
                error, self._not_on_disk = self._not_on_disk, None
                self.behind = True
                raise self._refusal(error)
            data = memoryview(_framed(kind, content))
            try:
                while data:
                    data = data[os.write(self._file, data) :]
            except OSError as error:
                self.behind = True
                os.ftruncate(self._file, self.size)
                raise self._refusal(error) from error
            self.size += HEAD.size + len(content)
            if self._timer is None:
                self._timer = threading.Timer(SYNC_SECONDS, self.sync)
                self._timer.daemon = True
                self._timer.start()

    def sync(self) -> None:
        """Write what was handed over to the disk."""
        with self._lock:
            self._timer = None
            if self._file >= 0:
                try:
                    os.fsync(self._file)
                except OSError as error:  # nobody listens here: the next record says it
                    self._not_on_disk = error

    def rewrite(self, records: list[tuple[int, bytes]]) -> None:
        """Put `records`, which say the same, in place of all records; at any time one of both is there."""
        with self._lock:
            try:
                with replacing(self.path) as file:
                    file.write(b"".join(_framed(kind, content) for kind, content in records))
                    if CLOSES_FIRST:
                        self._let_go()
            except OSError as error:
                if self._file < 0:
                    self._open()
                raise self._refusal(error) from error
            self._let_go()
            self._open()
            self.behind = False

    def close(self) -> None:
        """Write everything to the disk and close the file; a forked child only forgets it."""
        if self.inherited:
            return
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._file >= 0:
                os.fsync(self._file)
            self._let_go()

    def _let_go(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _refusal(self, error: OSError) -> OSError:
        reason = error.strerror or str(error)
        return type(error)(
            error.errno,
            f"The journal {self.path} cannot be written: {reason}. The buffer itself has the change, and "
            "writes it to the journal with the next one that can be written",
        )


def read_journal(path: str | os.PathLike[str]) -> Iterator[tuple[int, bytes]]:
    """Return the records of a journal, after cutting off one that was not finished.

    A file that does not begin with a whole record is not a journal, and is left alone: a journal takes its
    name together with its first record.
    """
    data = Path(path).read_bytes()
    if _record_at(data, 0) is None:
        hint = "It does not begin with a whole record."
        raise ValueError(must_be("path", "the journal of a ReplayBuffer", f'"{path}"', hint))
    position = 0
    while position < len(data):
        record = _record_at(data, position)
        if record is not None:
            yield record
            position += HEAD.size + len(record[1])
            continue
        if _any_record_after(data, position):
            hint = "What follows cannot be trusted: restore the file, or load the last `save`."
            got = f'"{path}", damaged at byte {position} of {len(data)}'
            raise ValueError(must_be("path", "a journal without damage", got, hint))
        msg = f"The last record of {path} was not finished: {len(data) - position} bytes of it are cut off."
        warnings.warn(msg, ReplayWarning, stacklevel=3)
        os.truncate(path, position)
        return


def _record_at(data: bytes, position: int) -> tuple[int, bytes] | None:
    """Return the whole, undamaged record at `position`, if there is one."""
    head = data[position : position + HEAD.size]
    if len(head) < HEAD.size:
        return None
    mark, kind, length, checksum = HEAD.unpack(head)
    content = data[position + HEAD.size : position + HEAD.size + length]
    whole = mark == MARK and len(content) == length and zlib.crc32(content) == checksum
    return (kind, content) if whole else None


def _any_record_after(data: bytes, position: int) -> bool:
    while (position := data.find(MARK, position + 1)) >= 0:
        if _record_at(data, position) is not None:
            return True
    return False


def pack(about: dict[str, Any], **arrays: np.ndarray) -> bytes:
    """Return settings and arrays as bytes, without a pickle."""
    stream = io.BytesIO()
    text = json.dumps({"about": about, "arrays": list(arrays)}).encode()
    stream.write(struct.pack("<I", len(text)) + text)
    for array in arrays.values():
        np.lib.format.write_array(stream, np.ascontiguousarray(array), allow_pickle=False)
    return stream.getvalue()


def unpack(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return what `pack` took."""
    (length,) = struct.unpack_from("<I", content)
    stream = io.BytesIO(content)
    stream.seek(4 + length)
    described = json.loads(content[4 : 4 + length])
    read = np.lib.format.read_array
    return described["about"], {name: read(stream, allow_pickle=False) for name in described["arrays"]}


def _framed(kind: int, content: bytes) -> bytes:
    return HEAD.pack(MARK, kind, len(content), zlib.crc32(content)) + content
