"""Text that comes from users' files and goes to terminals, figures and pages."""

from __future__ import annotations

import re

# Characters that steer a terminal or turn the direction of what follows.
_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""Return text without the characters that nobody sees but that change what is seen.

    Examples
    --------
    >>> visible("col\u202eumn \x1b[31m1")
    'column [31m1'
    """
    return _STEERING.sub("", text)
