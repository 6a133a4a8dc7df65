"""Which array libraries a function takes, declared beside it and shown in the documentation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Declared = TypeVar("Declared", bound=Callable[..., Any])

# NumPy runs everything and is not listed. The first, second and last are tested on the CPU; PyTorch and CuPy
# on a CUDA device where there is one (pytest -m gpu).
LIBRARIES = ("torch", "jax", "cupy", "array_api_strict")


@dataclass(frozen=True, slots=True)
class Capability:
    """What a public name does with arrays of other libraries.

    Attributes
    ----------
    name : str
    libraries : tuple of str
    where : str
        Where the work is done.
    """

    name: str
    libraries: tuple[str, ...]
    where: str


_REGISTRY: dict[str, Capability] = {}


def takes_arrays_of(*libraries: str, where: str) -> Callable[[Declared], Declared]:
    """Declare that a function or class takes arrays of `libraries`, and answers in their kind."""

    def declare(target: Declared) -> Declared:
        _REGISTRY[target.__qualname__] = Capability(target.__qualname__, libraries, where)
        return target

    return declare


def capability_table() -> str:
    """Return all declarations as a Markdown table, in alphabetical order."""
    lines = ["| name | " + " | ".join(LIBRARIES) + " | where the work is done |", "|---|" + "---|" * 5]
    for capability in sorted(_REGISTRY.values(), key=lambda one: one.name.lower()):
        marks = " | ".join("yes" if library in capability.libraries else "-" for library in LIBRARIES)
        lines.append(f"| `{capability.name}` | {marks} | {capability.where} |")
    return "\n".join(lines)
