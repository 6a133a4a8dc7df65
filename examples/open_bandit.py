"""
Open Bandit: what one policy is worth, from another policy's log
================================================================

A fashion shop showed one of 80 items in one of three places, chosen at random for some visitors and by
Thompson sampling for others (Saito et al. 2020). Each log also says what the policy that made it is worth:
the share of clicks. So the value of one policy, estimated from the other's log, can be set beside what
happened.

The small version of the data comes with the package ``obp``: ``pip download obp==0.4.1 --no-deps``, unpack
it, and give the folder ``obp/dataset/obd``::

    python examples/open_bandit.py obp/dataset/obd
"""

# sphinx_gallery_thumbnail_path = "figures/forest.svg"

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import replaystats as rs

N_ITEMS, PLACES = 80, (1, 2, 3)


def read(folder, name):
    """Return the log as episodes of one step, and the table of clicks."""
    table = pd.read_csv(Path(folder) / name / "all" / "all.csv")
    place = table["position"].to_numpy(float)
    data = rs.Trajectories(
        np.column_stack([place, place]),
        rewards=table[["click"]].to_numpy(float),
        actions=table[["item_id"]].to_numpy(),
        terminated=np.ones(len(table), dtype=bool),
        behavior_probability=table[["propensity_score"]].to_numpy(),
    )
    return data, table


def policy_of(table):
    """Return the policy that made a log, as far as its logged probabilities tell: by place and item."""
    mean = table.groupby(["position", "item_id"])["propensity_score"].mean().unstack(fill_value=0.0)
    chances = mean.reindex(index=PLACES, columns=range(N_ITEMS), fill_value=0.0).to_numpy()
    chances = chances / chances.sum(axis=1, keepdims=True)
    return lambda states: chances[states[:, 0].astype(int) - 1]


def main(folder):
    """Evaluate each policy from the other's log."""
    logs = {name: read(folder, name) for name in ("random", "bts")}
    for target, source in (("bts", "random"), ("random", "bts")):
        data, _ = logs[source]
        _, table = logs[target]
        found = rs.evaluate(data, policy_of(table), discount=1.0, n_actions=N_ITEMS)
        happened = rs.evaluate(logs[target][0], discount=1.0)
        print(f"{target} from the log of {source}:")
        print(found)
        low, high = happened.interval
        print(f"What happened: {happened.value:.5f} [{low:.5f}, {high:.5f}]\n")
    print(rs.compare(logs["random"][0], policy_of(logs["bts"][1]), None, discount=1.0, n_actions=N_ITEMS))


if __name__ == "__main__":
    main(sys.argv[1])
