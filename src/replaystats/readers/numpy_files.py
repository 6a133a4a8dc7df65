"""NumPy .npz files. Nothing in them is ever unpickled: a pickle can run any program."""

from __future__ import annotations

import zipfile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from .._core.errors import must_be
from ..data.trajectories import Trajectories
from ._ends import settle_time_limit
from ._names import no_such_name
from .flat import from_flat
from .transitions import from_transitions


def read_npz(
    path: str | PathLike[str],
    *,
    states: str = "states",
    rewards: str | None = "rewards",
    actions: str | None = None,
    terminated: str | None = "terminated",
    truncated: str | None = None,
    offsets: str | None = None,
    next_states: str | None = None,
    dt: float | str | None = None,
    behavior_probability: str | None = None,
    gaps: str = "raise",
    time_limit: int | str | None = "ask",
) -> Trajectories:
    """Return the trajectories in a NumPy ``.npz`` file; the arguments name its arrays.

    There are three layouts: `states` of shape (n, L + 1, d) or (n, L + 1), for episodes of one length;
    `states` of shape (N + n, d) with `offsets` (n + 1,), as in `from_flat`; `states` and `next_states` of
    shape (N, d), as in `from_transitions`.

    Parameters
    ----------
    path : str or path
        The file.
    states : str, default="states"
        The array of states, in one of the three layouts.
    rewards : str or None, default="rewards"
        (n, L), or (N,) in the two other layouts.
    actions : str, optional
        (n, L), (n, L, a), (N,) or (N, a).
    terminated : str or None, default="terminated"
        Booleans (n,); one per step (N,) beside `next_states`. None: no episode ended in an absorbing state.
    truncated : str, optional
        Booleans like `terminated`.
    offsets, next_states : str, optional
        Give one of them to choose a layout.
    dt : float, or str, optional
        Time of one step, or the array that holds it.
    behavior_probability : str, optional
        Probabilities, in (0, 1], of the logged actions: shaped as `rewards`.
    gaps : {"raise", "cut"}, default="raise"
        What to do where a row beside `next_states` starts elsewhere than the row before it ended: stop, or
        begin a new trajectory.
    time_limit : int, None or "ask", default="ask"
        Steps after which an episode was cut off, whatever `terminated` says of it; None: there was no limit.
        "ask": stop and ask, if nothing is said of truncation and many episodes have the same largest length.

    Returns
    -------
    Trajectories

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "log.npz"
    ...     np.savez(path, states=np.zeros((5, 4)), rewards=np.ones((5, 3)), terminated=np.zeros(5, bool))
    ...     read_npz(path, dt=0.1)
    Trajectories(5 x 3 steps, d=1, rewards, dt=0.1)
    """
    if offsets is not None and next_states is not None:
        raise ValueError(must_be("offsets", "None when `next_states` is given", repr(offsets)))
    wanted = {
        "states": states,
        "rewards": rewards,
        "actions": actions,
        "terminated": terminated,
        "truncated": truncated,
        "offsets": offsets,
        "next_states": next_states,
        "dt": dt if isinstance(dt, str) else None,
        "behavior_probability": behavior_probability,
    }
    arrays = _load(path, {role: name for role, name in wanted.items() if name is not None})
    if dt is not None and not isinstance(dt, str):
        arrays["dt"] = np.asarray(dt)
    arrays.setdefault("terminated", False)  # terminated=None says so
    if next_states is not None:
        return from_transitions(**arrays, gaps=gaps, time_limit=time_limit)
    data = Trajectories(**arrays) if offsets is None else from_flat(**arrays)
    return settle_time_limit(data, time_limit, told=truncated is not None)


def _load(path: str | PathLike[str], wanted: dict[str, str]) -> dict[str, Any]:
    with Path(path).open("rb") as stream:
        try:
            file = np.load(stream, allow_pickle=False)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            # NumPy takes any other file for a pickle and advises to load it, which could run any program.
            got = f'"{path}", which is none or is damaged'
            raise ValueError(must_be("path", "an .npz file", got)) from error
        if not isinstance(file, np.lib.npyio.NpzFile):
            hint = "Save it with numpy.savez(path, states=...)."
            raise ValueError(must_be("path", "an .npz file", "a single array", hint))
        return {role: _array(file, role, name, path) for role, name in wanted.items()}


def _array(file: Any, role: str, name: str, path: str | PathLike[str]) -> np.ndarray:
    if name not in file.files:
        hint = f"If there is none, pass {role}=None." if role in ("rewards", "terminated") else ""
        raise no_such_name(role, "an array of the file", name, file.files, hint)
    try:
        return np.asarray(file[name])
    except Exception as error:  # NumPy reads a damaged header as a Python expression: anything may happen
        if "Object arrays" in str(error):
            hint = "Save episodes of several lengths end to end, with `offsets`."
            raise ValueError(must_be(role, "a plain array", "pickled objects, not opened", hint)) from error
        got = f'array "{name}" of "{path}", which is damaged'
        raise ValueError(must_be(role, "a readable array", got)) from error
