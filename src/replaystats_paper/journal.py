"""The journal of a run: one line of JSON per finished cell, whole or absent, whatever interrupts the run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from replaystats.toolkit import must_be

from .cells import Settings

FILE_NAME = "cells.jsonl"


class Journal:
    """Finished cells of a run, on disk and in memory.

    The first line holds the settings; a journal made with other settings is refused, because its numbers
    could not stand beside new ones.

    Parameters
    ----------
    folder : Path
        Where ``cells.jsonl`` lies or will lie.
    settings : Settings
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.path = folder / FILE_NAME
        self.lines: dict[str, dict[str, Any]] = {}
        header = json.dumps({"settings": settings.as_dict()})
        if self.path.exists():
            whole = self._read(settings)
            _write_atomically(self.path, "".join(line + "\n" for line in whole))
        else:
            folder.mkdir(parents=True, exist_ok=True)
            _write_atomically(self.path, header + "\n")

    def has(self, key: str, repetitions: int) -> bool:
        """Say whether a cell is finished with this number of repetitions."""
        return key in self.lines and self.lines[key]["repetitions"] == repetitions

    def append(self, line: dict[str, Any]) -> None:
        """Add a finished cell: one write, forced to disk."""
        data = (json.dumps(line) + "\n").encode()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.lines[line["key"]] = line

    def results(self, key: str) -> dict[str, Any]:
        """Return the results of a finished cell."""
        results: dict[str, Any] = self.lines[key]["results"]
        return results

    def _read(self, settings: Settings) -> list[str]:
        """Load the finished cells; a last line cut short by a kill is left out."""
        whole: list[str] = []
        for text in self.path.read_text(encoding="utf-8").split("\n"):
            try:
                line = json.loads(text)
            except json.JSONDecodeError:
                break
            if "settings" in line:
                self._check_settings(line["settings"], settings)
            else:
                self.lines[line["key"]] = line
            whole.append(text)
        return whole

    def _check_settings(self, found: dict[str, Any], settings: Settings) -> None:
        wanted = settings.as_dict()
        other = [f"{name}={found.get(name)}" for name in wanted if found.get(name) != wanted[name]]
        if other:
            rule = "a folder without results, or with results of the same settings"
            got = f"{self.path.parent} with {', '.join(other)}"
            raise ValueError(must_be("--out", rule, got, "Choose another folder."))


def _write_atomically(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file so that its name never shows a part of it."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(data)
    os.replace(partial, path)
