"""Files of arrays: NumPy .npz and HDF5. Nothing in them is ever unpickled: a pickle can run any program."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from .._core.entries import as_flags
from .._core.errors import must_be, require_extra
from .._core.validation import check_choice, check_length, check_memory, check_path, check_real, check_text
from ..data.trajectories import Trajectories
from ._columns import no_such_name
from ._rows import Rows, close_episodes
from .flat import GAPS, as_rows, from_flat, from_transitions, narrow, resolve_time_limit

# Arguments that name nothing in the file.
_SETTINGS = ("path", "gaps", "final_states", "time_limit")


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
    names = _named(locals() | {"dt": dt if isinstance(dt, str) else None})
    path = check_path(path, "path", exists=True)
    check_choice(gaps, "gaps", GAPS)
    if offsets is not None and next_states is not None:
        raise ValueError(must_be("offsets", "None when `next_states` is given", repr(offsets)))
    arrays = _load(path, names)
    if dt is not None and not isinstance(dt, str):
        arrays["dt"] = np.asarray(dt)
    arrays.setdefault("terminated", False)  # terminated=None says so
    if next_states is not None:
        return from_transitions(**arrays, gaps=gaps, time_limit=time_limit)
    data = Trajectories(**arrays) if offsets is None else from_flat(**arrays)
    return resolve_time_limit(data, time_limit, flagged=truncated is not None)


def read_hdf5(
    path: str | PathLike[str],
    *,
    states: str = "observations",
    rewards: str | None = "rewards",
    actions: str | None = "actions",
    terminated: str | None = "terminals",
    truncated: str | None = "timeouts",
    next_states: str | None = None,
    final_states: str | None = None,
    dt: float | None = None,
    behavior_probability: str | None = None,
    time_limit: int | str | None = "ask",
) -> Trajectories:
    """Return the trajectories in an HDF5 file of steps, one row each, as D4RL writes them.

    Parameters
    ----------
    path : path
        The file.
    states, rewards, actions, terminated, truncated : str or None
        Names of the data sets, with ``/`` for groups; each has one row per step. ``truncated=None`` for files
        without timeouts.
    next_states : str, optional
        Data set of next states, such as "next_observations". Without it the state after the last step of an
        episode is not in the file, and `final_states` says what to do.
    final_states : {"repeat", "drop"}, optional
        "repeat": a terminated episode ends in its last observation once more, which is right for LSTD (the
        value there is 0 and the state is not looked at) and wrong for PhiBE. "drop": leave out the last step
        of every episode; none counts as terminated.
    dt : float, optional
        Time of one step.
    behavior_probability : str, optional
        Data set of the probabilities with which actions were chosen.
    time_limit : int, None or "ask", default="ask"
        Steps after which an episode was cut off, whatever `terminated` says of it; None: there was no limit.
        "ask": stop and ask, if there is no `truncated` and many episodes ended after one and the same largest
        number of steps.

    Returns
    -------
    Trajectories

    Raises
    ------
    MissingExtraError
        Without h5py.

    Examples
    --------
    >>> data = read_hdf5("halfcheetah.hdf5", next_states="next_observations")  # doctest: +SKIP
    """
    names = _named(locals() | {"dt": None})
    if final_states is not None:
        check_choice(final_states, "final_states", ("repeat", "drop"))
    dt = None if dt is None else check_real(dt, "dt", low=0.0, closed="neither")
    arrays = _load_hdf5(check_path(path, "path", exists=True), names)
    rows = as_rows(arrays.pop("states"), name="states")
    for role, array in arrays.items():
        check_length(len(array), len(rows), role, "states")
        if role not in ("actions", "next_states"):
            arrays[role] = _one_a_row(array, role)
    ends = {
        role: as_flags(arrays.pop(role, np.zeros(len(rows), dtype=np.bool_)), role)
        for role in ("terminated", "truncated")
    }
    action = arrays.pop("actions", None)
    labels = None if action is None else narrow(as_rows(action, name="actions"))
    flagged = truncated is not None
    if "next_states" in arrays:
        following = as_rows(arrays.pop("next_states"), name="next_states")
        data = from_transitions(
            rows, following, actions=labels, **arrays, **ends, dt=dt, gaps="cut", time_limit=None
        )
        return resolve_time_limit(data, time_limit, flagged=flagged)
    ended = ends["terminated"] | ends["truncated"]
    last = np.union1d(np.flatnonzero(ended), len(rows) - 1)
    if final_states is None and ends["terminated"].any():
        got = f"None, with {int(ends['terminated'].sum())} terminated episodes whose last state is not there"
        hint = 'Pass next_states="next_observations" if the file has them; "repeat" is right for LSTD.'
        raise ValueError(must_be("final_states", '"repeat" or "drop"', got, hint))
    runs = Rows.of_episodes(
        rows,
        np.diff(last, prepend=-1),
        ends["terminated"][last],
        rewards=arrays.get("rewards"),
        actions=labels,
        dt=dt,
        behavior_probability=arrays.get("behavior_probability"),
    )
    data = close_episodes(runs, final_states or "repeat", time_limit)
    return resolve_time_limit(data, time_limit, flagged=flagged)


def _load_hdf5(path: str | PathLike[str], wanted: dict[str, str]) -> dict[str, Any]:
    h5py = require_extra("h5py", extra="rl", purpose="Reading HDF5")
    try:
        with h5py.File(path, "r") as file:
            found: list[str] = []
            file.visititems(lambda name, item: found.append(name) if hasattr(item, "shape") else None)
            for role, name in wanted.items():
                _check_inside(h5py, file, role, name)
                if name.strip("/") not in found:
                    hint = f"If there is none, pass {role}=None." if role != "states" else ""
                    raise no_such_name(role, "a data set of the file", name, found, hint)
            return {role: _plain_data(h5py, file, role, name) for role, name in wanted.items()}
    except OSError as error:
        got = f'"{path}", which is none or is damaged'
        raise ValueError(must_be("path", "an HDF5 file", got)) from error


def _check_inside(h5py: Any, file: Any, role: str, name: str) -> None:
    """Refuse a name that leads to another file, which the sender of this one may have chosen."""
    parts = [part for part in name.split("/") if part]
    for i in range(len(parts)):
        try:
            link = file.get("/".join(parts[: i + 1]), getlink=True)
        except (KeyError, TypeError):  # for the caller to say that there is none
            return
        if isinstance(link, h5py.ExternalLink):
            raise ValueError(must_be(role, "a data set inside the file", f"a link to {link.filename!r}"))


def _plain_data(h5py: Any, file: Any, role: str, name: str) -> np.ndarray:
    """Return an array of numbers that lies in the file itself."""
    item = file[name]
    if not isinstance(item, h5py.Dataset):
        raise ValueError(must_be(role, "a data set", f"the group {name!r}"))
    if item.external is not None or item.is_virtual:
        got = f"{name!r}, whose numbers lie in other files"
        raise ValueError(must_be(role, "a data set inside the file", got, "Copy them into one file."))
    if item.shape is None or item.ndim == 0 or item.dtype.kind not in "biuf" or 0 in item.shape:
        got = f"dtype {item.dtype} of shape {item.shape}"
        raise TypeError(must_be(role, "an array of numbers with one row per step", got))
    check_memory(float(item.size), role, f"shape {item.shape}")
    return np.asarray(item[()])


def _one_a_row(array: np.ndarray, role: str) -> np.ndarray:
    """Return numbers (N,) from (N,) or (N, 1)."""
    if array.ndim > 2 or (array.ndim == 2 and array.shape[1] != 1):
        raise ValueError(must_be(role, "one number per step", f"shape {array.shape}"))
    return array.reshape(len(array))


def _named(given: dict[str, Any]) -> dict[str, str]:
    """Return the roles, of all arguments, that have a name in the file; states always have one."""
    names = {role: name for role, name in given.items() if role not in _SETTINGS}
    for role, name in names.items():
        if name is not None or role == "states":
            check_text(name, role)
    return {role: name for role, name in names.items() if name is not None}


@contextmanager
def open_npz(path: str | PathLike[str]) -> Iterator[Any]:
    """Open an archive of arrays; anything else is refused."""
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
        yield file


def _load(path: str | PathLike[str], wanted: dict[str, str]) -> dict[str, Any]:
    with open_npz(path) as file:
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
