"""From the shapes people have (3-D arrays, lists of episodes) to flat arrays plus offsets.

Everything here checks before it stacks, so that a mismatch names the trajectory it is in. What it returns
never shares memory with what it was given: overwriting an array does not change a record made from it. The
second half says what fields may hold: actions, probabilities, times, and how trajectories end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import array_namespace, is_torch_array

from .._core.arrays import as_array, computes_like_numpy, in_double, to_numpy
from .._core.entries import reads_as_number
from .._core.errors import must_be
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from .._core.validation import (
    as_columns,
    check_array,
    check_bool,
    check_integers,
    check_magnitude,
    check_real,
    has_usual_magnitude,
)

if TYPE_CHECKING:
    from .trajectories import Trajectories


STATES_HINT = "Pass an array (n, L+1, d), or (n, L+1) when d = 1, or a list of arrays (L_i + 1, d)."


def offsets_of(lengths: IntArray) -> IntArray:
    """Return the boundaries (n+1,) of consecutive pieces with the given lengths (n,)."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def gather(starts: IntArray, lengths: IntArray, step: int = 1) -> IntArray:
    """Return the indices ``starts[i] + step * (0 .. lengths[i]-1)``, piece after piece."""
    some = lengths > 0
    starts, lengths = starts[some], lengths[some]
    if not len(lengths):
        return np.zeros(0, dtype=np.int64)
    ahead = np.full(int(lengths.sum()), step, dtype=np.int64)  # summed in place: logs have millions of steps
    ahead[0] = starts[0]
    ahead[np.cumsum(lengths)[:-1]] = starts[1:] - starts[:-1] - step * (lengths[:-1] - 1)
    return np.cumsum(ahead, out=ahead)


def is_ragged(value: Any) -> bool:
    """Tell whether `value` lists one array per trajectory (an object array counts as such a list)."""
    return isinstance(value, (list, tuple)) or (
        isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1
    )


def holds_names(array: Any) -> bool:
    """Tell whether a checked array of states or actions holds names, which are kept as texts."""
    return isinstance(array, np.ndarray) and array.dtype.kind == "U"


def are_names(value: Any) -> bool:
    """Tell whether `value` is an array, or a list, of names of states or actions.

    Names are texts none of which reads as a number: "1.5" is a number somebody forgot to convert. In rows of
    them some columns may be whole numbers: ("hall", 2).
    """
    try:
        array = np.asarray(value) if isinstance(value, (list, tuple)) else value
    except ValueError:  # lists of different lengths
        return False
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "OUT":
        return False
    rows = array.reshape(-1, array.shape[-1]) if array.ndim > 1 else array.reshape(-1, 1)
    if array.dtype.kind == "O" and not all(isinstance(text, str) for text in array.flat):
        return False
    columns = [dict.fromkeys(column) for column in rows.T.tolist()]
    named = [not any(map(reads_as_number, column)) for column in columns]
    whole = [all(text.lstrip("-").isdecimal() for text in column) for column in columns]
    return array.size > 0 and any(named) and all(np.logical_or(named, whole))


def own(array: np.ndarray, given: Any) -> np.ndarray:
    """Return `array`, or a copy of it where it shares memory with what the caller gave."""
    if isinstance(given, (list, tuple)):
        return array
    return array.copy() if np.may_share_memory(array, to_numpy(given)) else array


def check_states(value: Any, name: str, ndim: tuple[int, ...], hint: str = "") -> np.ndarray:
    """Return states as a float array, or as an array of texts where they are names."""
    if not isinstance(value, np.ndarray) or value.dtype.kind in "OUT":
        try:
            names = are_names(value)
        except (TypeError, ValueError):  # a list of unequal rows: let the check of numbers say so
            names = False
        if names:
            array = np.asarray(value, dtype=str)
            if array.ndim not in ndim or array.size == 0:
                rule = " or ".join(f"{d}-D" for d in ndim)
                raise ValueError(must_be(name, f"a non-empty {rule} array", f"shape {array.shape}", hint))
            return array
    return check_array(value, name, ndim=ndim, hint=hint)


def flatten_states(states: Any) -> tuple[np.ndarray, IntArray]:
    """Return the states as rows (N + n, d) and the offsets (n+1,) of the trajectories in them."""
    if not is_ragged(states):
        array = check_states(states, "states", (2, 3), STATES_HINT)
        array = array[:, :, np.newaxis] if array.ndim == 2 else array
        n, length, d = array.shape
        _check_has_step(np.full(n, length))
        flat = own(array.reshape(n * length, d), states)
        return np.ascontiguousarray(flat), np.arange(n + 1) * length
    if len(states) == 0:
        raise ValueError(must_be("states", "non-empty", "a list of 0 trajectories", STATES_HINT))
    pieces = [as_columns(check_states(s, f"states[{i}]", (1, 2))) for i, s in enumerate(states)]
    d = pieces[0].shape[1]
    for i, piece in enumerate(pieces):
        if piece.shape[1] != d:
            rule = f"of one state dimension (states[0] has d = {d})"
            raise ValueError(must_be("states", rule, f"d = {piece.shape[1]} in states[{i}]"))
        if holds_names(piece) != holds_names(pieces[0]):
            rule = "numbers in all trajectories, or names in all"
            raise TypeError(must_be("states", rule, f"both, the second kind in states[{i}]"))
    lengths = np.array([len(piece) for piece in pieces])
    _check_has_step(lengths)
    return np.concatenate(pieces), offsets_of(lengths)


def _check_has_step(lengths: IntArray) -> None:
    short = np.flatnonzero(lengths < 2)
    if len(short):
        i = int(short[0])
        got = f"{lengths[i]} in trajectory {i} ({len(short)} such)"
        raise ValueError(must_be("states", "at least 2 states per trajectory (one step)", got, "Drop it."))


def check_offsets(offsets: ArrayLike, n_states: int) -> IntArray:
    """Return the boundaries (n+1,) of trajectories among `n_states` states."""
    rule = f"increasing integers from 0 to the number of states ({n_states})"
    bounds = check_integers(offsets, "offsets", hint=f"They are {rule}.")
    if len(bounds) < 2 or bounds[0] != 0 or bounds[-1] != n_states:
        got = f"{bounds[0]} to {bounds[-1]}" if len(bounds) else "none"
        raise ValueError(must_be("offsets", rule, got))
    lengths = np.diff(bounds)
    if lengths.min() < 2:
        i = int(np.argmin(lengths))
        rule = "such that every trajectory has at least 2 states (one step)"
        raise ValueError(must_be("offsets", rule, f"{lengths[i]} in trajectory {i}", "Drop it."))
    return own(bounds, offsets)


def flatten_steps(value: Any, name: str, n_steps: IntArray, *, ndim: tuple[int, ...] = (1,)) -> np.ndarray:
    """Return per-step values as rows (N, ...); `ndim` lists the dimensions one trajectory may have.

    Integers stay integers and texts texts (actions are often labels); everything else becomes float64.
    """
    if not is_ragged(value):
        return own(_flatten_regular_steps(value, name, n_steps, ndim), value)
    if len(value) != len(n_steps):
        rule = f"a list of {len(n_steps)} arrays, one per trajectory"
        raise ValueError(must_be(name, rule, f"a list of {len(value)}"))
    arrays = [_check_values(piece, f"{name}[{i}]", ndim) for i, piece in enumerate(value)]
    for i, (array, expected) in enumerate(zip(arrays, n_steps, strict=True)):
        if len(array) != expected:
            rule = f"of length L = {expected}, one less than the {expected + 1} states of that trajectory"
            raise ValueError(must_be(f"{name}[{i}]", rule, f"length {len(array)}"))
        if array.shape[1:] != arrays[0].shape[1:]:
            rule = f"of one shape per step ({name}[0] has {arrays[0].shape[1:]})"
            raise ValueError(must_be(name, rule, f"{array.shape[1:]} in {name}[{i}]"))
    return np.concatenate(arrays)


def check_steps(value: Any, name: str, n_steps: int, ndim: tuple[int, ...] = (1,)) -> np.ndarray:
    """Return per-step values that are flat already, (N, ...), checked in the same way; not copied."""
    array = _check_values(value, name, ndim)
    if len(array) != n_steps:
        raise ValueError(must_be(name, f"one per step, {n_steps} in all", len(array)))
    return array


def _flatten_regular_steps(value: Any, name: str, n_steps: IntArray, ndim: Sequence[int]) -> np.ndarray:
    n, length = len(n_steps), int(n_steps[0])
    if np.any(n_steps != length):
        rule = f"a list of {n} arrays, because the trajectories differ in length"
        raise ValueError(must_be(name, rule, f"shape {np.shape(value)}"))
    shape = np.shape(value)
    if len(shape) - 1 not in ndim or shape[:2] != (n, length):
        rule = f"of shape (n, L) = ({n}, {length}) to match `states` with (n, L+1) = ({n}, {length + 1})"
        raise ValueError(must_be(name, rule, f"shape {shape}"))
    clean = _check_values(value, name, tuple(d + 1 for d in ndim))
    return clean.reshape(n * length, *clean.shape[2:])


def _check_values(value: Any, name: str, ndim: tuple[int, ...]) -> np.ndarray:
    if not np.ma.is_masked(value):
        array = as_array(value, name)
        if array.ndim in ndim and array.size and array.dtype.kind in "biu":
            return array
    return check_states(value, name, ndim)


# Trajectories that live on a device: states and steps that stay there, flat, in double precision.
#
# Whatever is not plainly right here (a shape, a number that is not finite, a library without double
# precision) is left to the host, which has a sentence for it.


def device_of(states: Any, given: dict[str, Any]) -> tuple[dict[str, Any], IntArray | None]:
    """Return what of a record stays where it lives, by name, and the trajectories' offsets if any does."""
    found = _flat_on_device(states, 2)
    if found is None or found[1].min() < 2:
        return {}, None
    device, lengths = {"states": as_columns(found[0])}, found[1]
    for name, deepest in (("rewards", 1), ("actions", 2)):
        steps = _flat_on_device(given[name], deepest, integers=name == "actions")
        if steps is not None and np.array_equal(steps[1], lengths - 1):
            device[name] = steps[0]
    return device, offsets_of(lengths)


def _flat_on_device(value: Any, deepest: int, *, integers: bool = False) -> tuple[Any, IntArray] | None:
    """Return the rows of all trajectories, one after the other, and how many each has; None where unusual."""
    if is_ragged(value):
        pieces = list(value)
        alike = all(computes_like_numpy(piece) and 1 <= piece.ndim <= deepest for piece in pieces)
        if not (pieces and alike) or len({tuple(piece.shape[1:]) for piece in pieces}) > 1:
            return None
        lengths = np.array([piece.shape[0] for piece in pieces])
        flat = _usual(array_namespace(*pieces).concat(pieces), integers=integers)
    else:
        if not computes_like_numpy(value) or not 2 <= value.ndim <= deepest + 1:
            return None
        n, length = value.shape[:2]
        lengths = np.full(n, length)
        flat = array_namespace(value).reshape(value, (n * length, *value.shape[2:]))
        flat = _usual(flat, integers=integers)
    return None if flat is None else (flat, lengths)


def _usual(array: Any, *, integers: bool = False) -> Any:
    """Return a copy in double precision (or of integers, as they are); None where something is unusual."""
    xp = array_namespace(array)
    if 0 in array.shape:
        return None
    if integers and xp.isdtype(array.dtype, ("integral", "bool")):
        return xp.astype(array, xp.int64, copy=True)
    found = in_double(array)
    if found is None or not bool(xp.all(xp.isfinite(found))):
        return None
    if not has_usual_magnitude(float(xp.max(xp.abs(found)))):
        return None
    return found.clone() if is_torch_array(found) else xp.asarray(found, copy=True)


def clean_fields(
    states: np.ndarray | None,
    offsets: IntArray,
    steps: dict[str, np.ndarray],
    ends: tuple[BoolArray, BoolArray],
    dt: Any,
    device: dict[str, Any],
) -> dict[str, Any]:
    """Return the fields of a record from what was checked for shape: what each number may be."""
    actions, labels = as_actions(steps["actions"]) if "actions" in steps else (None, None)
    rewards, name = steps.get("rewards"), "behavior_probability"
    chance = steps.get(name)
    dense = are_numbers(device.get("actions", actions))
    fields = {
        "states": states if states is None or holds_names(states) else check_magnitude(states, "states"),
        "offsets": offsets,
        "rewards": None if rewards is None else check_magnitude(as_numbers(rewards, "rewards"), "rewards"),
        "actions": actions,
        "terminated": ends[0],
        "truncated": ends[1],
        "dt": as_dt(dt, as_numbers(steps["dt"], "dt") if "dt" in steps else None),
        name: None if chance is None else as_probabilities(chance, name, dense=dense),
        "action_labels": labels,
        "parent": np.arange(len(offsets) - 1),
        "device": device,
    }
    return {name: value for name, value in fields.items() if name not in device}


def as_numbers(values: np.ndarray, name: str) -> FloatArray:
    """Return per-step numbers as float64; names are refused."""
    return check_array(values, name, ndim=values.ndim)


def as_actions(values: np.ndarray) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Return actions as numbers, and, where they are names, the names 0, 1, ... stand for."""
    if values.dtype.kind == "b":
        return values.astype(np.int64), None
    if not holds_names(values):
        return values, None
    if values.ndim != 1:
        raise ValueError(must_be("actions", "one name per step", f"shape {values.shape}"))
    names, codes = np.unique(values, return_inverse=True)
    return codes.astype(np.int64), tuple(names.tolist())


def join_actions(parts: list[tuple[np.ndarray | None, tuple[str, ...] | None]]) -> dict[str, Any]:
    """Return the actions of several records and what they are called; a name may be missing in some.

    Examples
    --------
    >>> join_actions([(np.array([0, 1]), ("go", "stop")), (np.array([0]), ("stop",))])
    {'actions': array([0, 1, 1]), 'action_labels': ('go', 'stop')}
    """
    names = sorted({name for _, labels in parts for name in labels or ()})
    actions = [
        codes if labels is None else np.searchsorted(names, labels)[codes]
        for codes, labels in parts
        if codes is not None
    ]
    joined = np.concatenate(actions) if actions else None
    return {"actions": joined, "action_labels": tuple(names) or None}


def as_probabilities(values: np.ndarray, name: str, *, dense: bool = False) -> FloatArray:
    """Return probabilities of what was done, one a step: what happened cannot have had probability 0.

    Where actions are numbers they are densities, and may be large.
    """
    numbers, most = as_numbers(values, name), np.inf if dense else 1.0
    if numbers.min() <= 0.0 or numbers.max() > most:
        step = int(np.flatnonzero((numbers <= 0.0) | (numbers > most))[0])
        hint = "It is the probability (not its logarithm) with which the logged action was chosen."
        rule = "positive on every step" if dense else "in (0, 1] on every step"
        raise ValueError(must_be(name, rule, f"{numbers[step]:g} in step {step}", hint))
    return numbers


def are_numbers(actions: Any) -> bool:
    """Tell whether actions lie on a continuum: all but one whole number a step."""
    if actions is None:
        return False
    one = actions.ndim == 1 or actions.shape[1] == 1
    return not (one and array_namespace(actions).isdtype(actions.dtype, "integral"))


def as_dt(dt: Any, steps: FloatArray | None) -> float | FloatArray | None:
    """Return `dt` as None, one positive float, or, from its values at the `steps`, one per step (N,)."""
    if dt is None:
        return None
    if steps is None:
        number = dt.item() if isinstance(dt, np.ndarray) else dt
        return check_real(number, "dt", low=0.0, closed="neither")
    if steps.min() <= 0.0:
        raise ValueError(must_be("dt", "positive on every step", f"{steps.min():g} as the smallest"))
    return steps


def is_scalar(value: Any) -> bool:
    """Tell whether a `dt` is one number for all steps."""
    return not is_ragged(value) and np.ndim(value) == 0


def check_flags(flags: ArrayLike | None, name: str, n: int) -> BoolArray:
    """Return one bool per trajectory (n,); one alone holds for all, and None means False."""
    if flags is None:
        return np.zeros(n, dtype=np.bool_)
    hint = "Flags are per trajectory: of per-step flags pass the last one of each."
    array = as_array(flags, name)
    if array.ndim == 0:
        return np.full(n, check_bool(array.item(), name, hint))
    if array.dtype != np.bool_:
        raise TypeError(must_be(name, f"{n} booleans, one per trajectory", f"dtype {array.dtype}", hint))
    if array.shape != (n,):
        raise ValueError(must_be(name, f"of shape (n,) = ({n},)", f"shape {array.shape}", hint))
    return own(array, flags)


def check_ends(
    terminated: ArrayLike | None, truncated: ArrayLike | None, n_steps: IntArray, *, has_rewards: bool
) -> tuple[BoolArray, BoolArray]:
    """Return how each trajectory ended, and refuse to guess it.

    Trajectories of one length were cut off there by whoever made them. Trajectories of several lengths ended
    for a reason of their own: if that is an absorbing state that no flag names, every value is wrong.
    """
    ends = (
        check_flags(terminated, "terminated", len(n_steps)),
        check_flags(truncated, "truncated", len(n_steps)),
    )
    unknown = ~ends[1]
    if terminated is None and has_rewards and unknown.any() and np.ptp(n_steps) > 0:
        got = f"None, with {n_steps.min()} to {n_steps.max()} steps a trajectory"
        hint = (
            "Where the trajectory ended in an absorbing state, the value there is 0. Pass one flag per "
            "trajectory, or terminated=False if none did."
        )
        raise ValueError(must_be("terminated", "given where trajectories differ in length", got, hint))
    return ends


def check_alike(parts: Sequence[Trajectories]) -> None:
    """Raise unless all parts have the same dimensions and the same optional fields."""
    first = _describe(parts[0])
    for i, part in enumerate(parts):
        for mine, theirs in zip(_describe(part), first, strict=True):
            if mine != theirs:
                rule = "alike in state dimension and in what they record"
                raise ValueError(must_be("parts", rule, f"{mine} in parts[{i}], {theirs} in parts[0]"))


def _describe(part: Trajectories) -> tuple[str, ...]:
    return (
        f"d = {part.dimension}",
        "names as states" if holds_names(part.states) else "numbers as states",
        "no rewards" if part.rewards is None else "rewards",
        "no actions" if part.actions is None else f"actions of shape {part.actions.shape[1:]}",
        "no dt" if part.dt is None else "dt",
        f"{'no ' * (part.behavior_probability is None)}behavior_probability",
        "numbers as actions" if part.action_labels is None else "names as actions",
    )


def join_present(arrays: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """Return the arrays that there are, one after the other."""
    present = [array for array in arrays if array is not None]
    return np.concatenate(present) if present else None
