"""How episodes ended, where a log says only that they did.

Older logs have one flag, ``done``. An episode that ran into a time limit then looks as if it had ended in a
state of value 0, which shifts every value. What gives it away is the length: many episodes have the largest.
"""

from __future__ import annotations

import numpy as np

from .._core.errors import must_be
from .._core.typing import BoolArray, IntArray
from .._core.validation import check_int
from ..data.trajectories import Trajectories
from .flat import with_fields

# Shorter episodes often share their length; fewer of them than this are chance.
SHORTEST_LIMIT, FEWEST, SMALLEST_SHARE = 10, 3, 0.05


def settle_time_limit(data: Trajectories, time_limit: int | str | None, *, told: bool) -> Trajectories:
    """Return `data` with the episodes that reached the time limit marked as cut off.

    Parameters
    ----------
    data : Trajectories
    time_limit : int, None or "ask"
        Steps after which episodes were cut off; None: there was no limit; "ask": raise if it looks like one.
    told : bool
        Whether the log says itself which episodes were cut off, so that there is nothing to ask.
    """
    if time_limit is None:
        return data
    if time_limit == "ask":
        if not told:
            _ask(data.n_steps, data.terminated)
        return data
    if isinstance(time_limit, str):
        raise ValueError(must_be("time_limit", 'an int, None or "ask"', repr(time_limit)))
    reached = data.n_steps >= check_int(time_limit, "time_limit")
    return with_fields(data, terminated=data.terminated & ~reached, truncated=data.truncated | reached)


def looks_like_a_limit(n_steps: IntArray, terminated: BoolArray) -> bool:
    """Tell whether suspiciously many episodes ended after exactly the largest number of steps.

    Suspicious: 5 % of them, and 3 more than four times what a length in the last fifth before it has.
    """
    longest = int(n_steps.max())
    at_limit = int(np.count_nonzero(terminated & (n_steps == longest)))
    width = max(1, longest // 5)
    usual = np.count_nonzero((n_steps < longest) & (n_steps >= longest - width)) / width
    many = at_limit >= max(FEWEST + 4 * usual, SMALLEST_SHARE * len(n_steps))
    return bool(longest >= SHORTEST_LIMIT and many)


def _ask(n_steps: IntArray, terminated: BoolArray) -> None:
    if looks_like_a_limit(n_steps, terminated):
        longest = int(n_steps.max())
        at_limit = int(np.count_nonzero(terminated & (n_steps == longest)))
        got = f"{at_limit} of {len(n_steps)} episodes flagged as ended after exactly {longest} steps"
        hint = (
            f"None is longer. If a time limit cut those off, pass time_limit={longest} (or `truncated`). If "
            "they really ended there, pass time_limit=None."
        )
        raise ValueError(must_be("time_limit", "given", got, hint))
