"""What the fields of a record may hold: actions, probabilities, times, and how trajectories end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import as_array
from .._core.errors import must_be
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from .._core.validation import check_array, check_bool, check_magnitude, check_real
from ._flat import holds_names, is_ragged, own

if TYPE_CHECKING:
    from .trajectories import Trajectories


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
    for a reason of their own: if that is an absorbing state and nobody says so, every value is wrong.
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
