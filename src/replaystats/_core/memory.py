"""How much memory this machine has, so that what cannot fit is refused before any work."""

from __future__ import annotations

import os


def physical_memory() -> int | None:
    """Return the bytes of memory of this machine; None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
