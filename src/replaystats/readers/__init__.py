"""Logged data in: from environments, data sets, replay buffers, tables and files to `Trajectories`."""

from .buffers import from_sb3, from_torchrl
from .episodes import from_d3rlpy, from_minari
from .flat import from_flat
from .numpy_files import read_npz
from .rollouts import find_dt, rollout
from .tables import from_table
from .transitions import from_transitions

__all__ = [
    "find_dt",
    "from_d3rlpy",
    "from_flat",
    "from_minari",
    "from_sb3",
    "from_table",
    "from_torchrl",
    "from_transitions",
    "read_npz",
    "rollout",
]
