"""A value that was chosen for the user, with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

AUTO = "auto"


def is_auto(value: Any) -> bool:
    """Whether a parameter is left to be chosen (arrays compare element by element, strings do not)."""
    return isinstance(value, str) and value == AUTO


@dataclass(frozen=True, slots=True)
class Choice:
    """What "auto" stands for in one case, and why.

    Examples
    --------
    >>> print(Choice(250, "half of the observations"))
    250: half of the observations
    """

    value: Any
    reason: str

    def __str__(self) -> str:
        value = f"{self.value:.3g}" if isinstance(self.value, float) else str(self.value)
        return f"{value}: {self.reason}"
