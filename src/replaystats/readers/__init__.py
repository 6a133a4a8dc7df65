"""Logged data in: from environments, data sets, replay buffers, tables and files to `Trajectories`."""

from .files import read_hdf5, read_npz
from .flat import from_flat, from_transitions, from_vector
from .guess import guess_columns
from .libraries import from_d3rlpy, from_minari, from_sb3, from_torchrl
from .rollouts import find_dt, policy_of, rollout
from .tables import from_table

__all__ = [
    "find_dt",
    "from_d3rlpy",
    "from_flat",
    "from_minari",
    "from_sb3",
    "from_table",
    "from_torchrl",
    "from_transitions",
    "from_vector",
    "guess_columns",
    "policy_of",
    "read_hdf5",
    "read_npz",
    "rollout",
]
