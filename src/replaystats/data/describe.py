"""A table of what episodes hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.errors import require_extra
from ._flat import holds_names

if TYPE_CHECKING:
    from .trajectories import Trajectories


def describe(data: Trajectories) -> Any:
    """Return one row per quantity: mean, standard deviation, minimum, median, maximum.

    Parameters
    ----------
    data : Trajectories

    Returns
    -------
    DataFrame
        Rows "steps of an episode", "return" and "reward" where there are rewards, and one per state variable.

    Examples
    --------
    >>> from replaystats import Trajectories
    >>> frame = describe(Trajectories([[0.0, 1.0], [0.0, 3.0]], rewards=[[1.0], [2.0]], terminated=True))
    >>> frame["mean"].to_dict()
    {'steps of an episode': 1.0, 'return': 1.5, 'reward': 1.5, 'state 0': 1.0}
    """
    pandas = require_extra("pandas", extra="io", purpose="A data frame")
    columns = {"steps of an episode": np.asarray(data.n_steps, dtype=float)}
    if data.rewards is not None:
        rewards = np.asarray(data.rewards, dtype=float)
        starts = data.step_offsets[:-1]
        columns["return"] = np.add.reduceat(rewards, starts) if len(rewards) else rewards
        columns["reward"] = rewards
    if not holds_names(data.states):
        columns |= {f"state {j}": np.asarray(data.states)[:, j] for j in range(data.dimension)}
    names = ["mean", "std", "min", "median", "max"]
    rows = {
        name: [values.mean(), values.std(), values.min(), np.median(values), values.max()]
        for name, values in columns.items()
    }
    return pandas.DataFrame.from_dict(rows, orient="index", columns=names)
