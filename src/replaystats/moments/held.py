"""Actions that change inside a window: the zero-order-hold trap of higher-order PhiBE.

Logged controllers choose an action, hold it for a step, and choose again. Of the states s_{j+1}..s_{j+a} only
the first then shows the drift that belongs to s_j and its action. Order 1 looks no further. A higher order
mixes in steps of later actions, and falls back to first order with a larger constant, unless one action lasts
for the whole window.
"""

from __future__ import annotations

import warnings

import numpy as np

from .._core.errors import ReplayWarning, must_be
from .._core.typing import BoolArray
from ..data import Trajectories
from ..data.views import Windows

# Below this share of windows the trap costs less than the noise that higher orders add anyway.
TOLERATED_SHARE = 0.05


def held_windows(data: Trajectories, windows: Windows, order: int) -> BoolArray:
    """Return in which windows one action lasts from the first step to the last, shape (n_windows,).

    Examples
    --------
    >>> data = Trajectories([[0.0, 1.0, 2.0, 3.0, 4.0]], actions=[[5, 5, 7, 7]])
    >>> held_windows(data, data.windows(2), 2)
    array([ True, False,  True])
    """
    if data.actions is None:
        hint = "Pass `actions` to Trajectories, or leave `held_actions` out."
        raise ValueError(must_be("data", "trajectories with actions", "none", hint))
    actions = data.actions.reshape(len(data.actions), -1)
    step = windows.start - windows.trajectory  # each earlier trajectory has one state more than it has steps
    inside = actions[step[:, None] + np.arange(order)]  # (n_windows, order, a)
    same: BoolArray = (inside == inside[:, :1]).all(axis=(1, 2))
    return same


def check_held(held: BoolArray, order: int) -> None:
    """Refuse data in which no window has one action."""
    if not held.any():
        rule = f"False, as no window of {order} steps has one action"
        hint = "Use order=1, or log data in which every action is held for that many steps."
        raise ValueError(must_be("held_actions", rule, True, hint))


def warn_about_changes(held: BoolArray, order: int) -> None:
    """Explain the trap where actions change inside windows of order 2 and more."""
    share = 1.0 - held.mean()
    if share > TOLERATED_SHARE:
        warnings.warn(
            f"In {share:.0%} of the windows of {order} steps the action changes. If each action is held for "
            f"a step and then chosen anew, order={order} has an error of order dt, larger than order=1 has. "
            "Use order=1; or collect data in which each action is held for at least that many steps, and "
            "pass held_actions=True, window_stride=<steps of a hold>. (A controller that acts in continuous "
            "time, of which the actions are only samples, is not concerned.)",
            ReplayWarning,
            stacklevel=4,
        )


def warn_about_stale_starts(data: Trajectories, windows: Windows, held: BoolArray) -> None:
    """Explain windows that start amid a hold, with an action that was chosen for an earlier state."""
    if data.actions is None or np.issubdtype(data.actions.dtype, np.integer):
        return  # a discrete action may well be chosen twice in a row
    actions = data.actions.reshape(len(data.actions), -1)
    step = windows.start - windows.trajectory
    first = np.isin(step, data.step_offsets[:-1])
    stale = ~first & (actions[step] == actions[step - 1]).all(axis=1) & held
    share = stale.sum() / held.sum()
    if share > TOLERATED_SHARE:
        warnings.warn(
            f"{share:.0%} of the windows with one action start amid a hold, with an action that was chosen "
            "for an earlier state: their drift is not that of the policy. "
            "Pass window_stride=<steps of a hold>.",
            ReplayWarning,
            stacklevel=4,
        )
