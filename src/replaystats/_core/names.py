"""How names are found: public ones at their first use, those of 0.1 for one release, with a warning.

scikit-learn alone takes a second to import. A program that asks for the version, or a shell that asks for
help, should not wait for it.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

from .errors import must_be

P = ParamSpec("P")
Result = TypeVar("Result")
MOVED = {
    "replaystats.replicates": "replaystats.engine",
    "replaystats.resampling": "replaystats.plans",
    "replaystats.data.readers": "replaystats.readers",
    "replaystats.data.simulate": "replaystats.simulate",
    "replaystats.estimators.recommended": "replaystats.tuning.recommended",
    "replaystats.report.estimate_plots": "replaystats.plots",
    "replaystats.experiments": "replaystats_paper",
}


def front_door(package: str, file: str) -> tuple[Callable[[str], Any], list[str]]:
    """Return `__getattr__` and the public names of a package, read from the stub beside its `file`.

    The stub is what type checkers and editors read, so that names stand in one place only.

    Parameters
    ----------
    package : str
        Its `__name__`.
    file : str
        Its `__file__`; ``__init__.pyi`` with lines ``from .room import Name as Name`` lies beside it.
    """
    homes = _devices(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        device = homes[name]
        room = import_module(device or f".{name}", package)
        value = room if device is None else getattr(room, name)
        setattr(sys.modules[package], name, value)  # the next look-up finds it without coming here
        return value

    return get, sorted(name for name in homes if not name.startswith("_"))


def _devices(stub: str) -> dict[str, str | None]:
    """Return the relative module of every name of a stub; None where the name is a module itself."""
    return {
        alias.name: None if node.module is None else f".{node.module}"
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
    }


class MovedModules(MetaPathFinder, Loader):
    """Finds modules that moved.

    It looks first: `replaystats_paper` under its old name has a folder, in which the ordinary search would
    find second copies of the modules inside.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a way to load the new module under the old name, or None if it is not one of ours."""
        new = new_name(fullname)
        if new is None:
            return None
        msg = f"`{fullname}` is called `{new}` now; the old name will be removed in 0.3."
        warnings.warn(msg, DeprecationWarning, stacklevel=2)
        return ModuleSpec(fullname, self, loader_state=new)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the new module itself: there is one of each, under two names."""
        module = import_module(spec.loader_state)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own description back, which the import system replaced by the old name's."""
        if module.__spec__ is not None and isinstance(module.__spec__.loader_state, ModuleSpec):
            module.__spec__ = module.__spec__.loader_state


def new_name(old: str) -> str | None:
    """Return where the module `old` of 0.1 stands now, or None.

    Examples
    --------
    >>> new_name("replaystats.experiments.qlearning.learner")
    'replaystats_paper.qlearning.learner'
    """
    for before, now in MOVED.items():
        if old == before or old.startswith(before + "."):
            return now + old.removeprefix(before)
    return None


def install() -> None:
    """Let imports of old names be found."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, MovedModules())


def renamed_parameter(old: str, new: str) -> Callable[[Callable[P, Result]], Callable[P, Result]]:
    """Let a function of 0.1 take the keyword `old` for `new` until 0.3, with a warning.

    Examples
    --------
    >>> @renamed_parameter("colour", "color")
    ... def paint(color):
    ...     return color
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     paint(colour="red"), str(said[0].message)
    ('red', '`colour` is called `color` now; the old name will be removed in 0.3.')
    """

    def decorate(function: Callable[P, Result]) -> Callable[P, Result]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> Result:
            if old in kwargs:
                if new in kwargs:
                    raise TypeError(must_be(old, f"left out where `{new}` is given", "both"))
                msg = f"`{old}` is called `{new}` now; the old name will be removed in 0.3."
                warnings.warn(msg, DeprecationWarning, stacklevel=2)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        call.old_parameter = old  # type: ignore[attr-defined]  # for whoever lists what is accepted
        return call

    return decorate
