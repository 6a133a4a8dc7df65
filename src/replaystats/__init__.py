"""Replayed estimators: estimate on many random subsets, combine, and know what you got."""

from ._core.version import front_door

# Public names stand in __init__.pyi, each with its module, and are imported at their first use.
__getattr__, __all__ = front_door(__name__, __file__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
