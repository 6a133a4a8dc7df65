"""The paper, re-run and set beside its published numbers, and studies of your own in the same manner.

Names are found when they are asked for: the command line looks into modules here to say what it can do, and
that must not cost the import of every experiment.
"""

from importlib import import_module
from typing import Any

_WHERE = {
    "Cell": "cells",
    "Experiment": "cells",
    "Settings": "cells",
    "find_experiments": "cells",
    "load_catalogue": "cells",
    "reproduce": "rerun",
}

__all__ = ["Cell", "Experiment", "Settings", "find_experiments", "load_catalogue", "reproduce"]


def __getattr__(name: str) -> Any:
    """Import a public name from the module that holds it."""
    if name not in _WHERE:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
