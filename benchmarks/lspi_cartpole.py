"""LSPI on CartPole from logs of random pushes: how long does the pole stand, of 500 steps?

``python benchmarks/lspi_cartpole.py [logs]``: quadratic polynomials of squashed states, discount .95, the
plug-in in every iteration; 300, 1000 and 2000 episodes of about 22 steps; 100 rollouts of every policy.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from logged_environments import environments, log_episodes

import replaystats as rs

RESULTS = Path(__file__).parent / "results" / "lspi_cartpole.json"
DISCOUNT, N_ROLLOUTS, LIMIT = 0.95, 100, 500


def steps_standing(policy, rng: np.random.Generator) -> float:
    """Return the mean length of rollouts, each cut at 500 steps."""
    env = environments()["CartPole"]
    state, total = env.reset(N_ROLLOUTS, rng), 0
    for _ in range(LIMIT):
        state, _, ended = env.step(state, policy(state), rng)
        total += len(state)
        state = state[~ended]
        if not len(state):
            break
    return total / N_ROLLOUTS


def main() -> None:
    n_logs, rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10, []
    for n_episodes in (300, 1000, 2000):
        scores, stopped, began = [], [], time.process_time()
        for number in range(n_logs):
            rng = np.random.default_rng([20261116, n_episodes, number])
            data, _ = log_episodes(
                environments()["CartPole"], lambda s: np.full((len(s), 2), 0.5), n_episodes, rng
            )
            basis = rs.basis.Squashed(rs.basis.Polynomial(2, dimension=4))
            model = rs.LSPI(
                basis,
                discount=DISCOUNT,
                evaluation="plug_in",
                resampling=rs.Resampling(n_resamples=20),
                random_state=0,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", rs.ReplayWarning)
                model.fit(data)
            scores.append(steps_standing(model.policy_, rng))
            stopped.append(model.iterations_.stopped)
        rows.append(
            {
                "episodes": n_episodes, "logs": n_logs, "steps": scores,
                "converged": stopped.count("converged"),
                "seconds": (time.process_time() - began) / n_logs,
            }
        )  # fmt: skip
        print(n_episodes, [round(score) for score in scores], rows[-1]["converged"], "converged", flush=True)
    RESULTS.write_text(json.dumps({"discount": DISCOUNT, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
