"""Partial sums on disk: written whole or not at all, and only taken up by the run they belong to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from .._core.errors import must_be
from .._core.files import replacing
from .._core.typing import BoolArray, FloatArray


class CheckpointError(OSError):
    """A checkpoint could not be written; nothing is wrong with the data or the workers."""


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """The file of one reduction over the blocks of a source.

    Attributes
    ----------
    directory : Path or None
        None: nothing is kept.
    name : str
        What is reduced, as a file name.
    identity : dict
        What must be the same for a later run to go on: plain values that JSON can write.
    """

    directory: Path | None
    name: str
    identity: dict[str, Any]

    @property
    def path(self) -> Path | None:
        """The file, if there is to be one."""
        return None if self.directory is None else self.directory / f"{self.name}.npz"

    def load(self, done: BoolArray, values: FloatArray) -> None:
        """Fill `done` (blocks taken in) and `values` (their reduction) from the file, if there is one."""
        if self.path is None or not self.path.exists():
            return
        hint = "Remove it, or choose another directory."
        try:
            with np.load(self.path, allow_pickle=False) as stored:
                found = json.loads(str(stored["identity"]))
                if found == self.identity:
                    done[:], values[:] = stored["done"], stored["values"]
                    return
        except (BadZipFile, KeyError, ValueError, EOFError) as error:
            rule = "a directory whose files are whole"
            raise ValueError(must_be("checkpoint", rule, f"{self.path}: {error}", hint)) from error
        names = sorted(self.identity.keys() | found.keys())
        changed = [name for name in names if found.get(name) != self.identity.get(name)]
        rule = "a directory without sums of another run"
        got = f"{self.path}, where {', '.join(changed)} differ(s)"
        raise ValueError(must_be("checkpoint", rule, got, hint))

    def save(self, done: BoolArray, values: FloatArray) -> None:
        """Write the state; whoever is killed in the middle leaves the file before it."""
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self.path) as file:
                np.savez(file, identity=np.array(json.dumps(self.identity)), done=done, values=values)
        except OSError as error:
            reason = error.strerror or str(error)
            raise CheckpointError(
                error.errno, f"The checkpoint {self.path} cannot be written: {reason}"
            ) from error
