"""Value of a policy on 10^4 Pendulum transitions: LSTD here beside fitted Q evaluation of d3rlpy.

Run it with ``python benchmarks/fqe.py [updates]`` where d3rlpy 2.8.1 is installed (``pip install --no-deps
d3rlpy`` and what it misses; it pins an old Gymnasium). Not a tuned comparison: FQE has default networks and
learns action values, of other policies too; LSTD has bumps whose width and penalty suit the task. The second
task is off policy: CartPole where episodes start, from 100 episodes of another policy, `rs.evaluate` with its
defaults, every estimate run, beside FQE with its own defaults, trained as long as d3rlpy's documentation
does and asked on the way: so it is seen what its time buys.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
from logged_environments import environments, log_episodes, true_value

import replaystats as rs

RESULTS = Path(__file__).parent / "results" / "fqe.json"
DISCOUNT, N_EPISODES, N_STEPS = 0.98, 50, 200
# What d3rlpy's documentation trains fitted Q evaluation for.
DOCUMENTED_UPDATES = 100_000
UNITS = np.array([1.0, 1.0, 0.3])


def policy_mean(states):
    return 2 * np.tanh(-0.5 * states[..., 2:] - states[..., 1:2])


def roll_out(n_episodes, seed):
    rng = np.random.default_rng(seed)
    env = gymnasium.make("Pendulum-v1")
    return rs.readers.rollout(env, lambda s: policy_mean(s) + 0.5 * rng.normal(size=1), n_episodes, seed=seed)


def true_values(points, n_rollouts=200, n_steps=400):
    """Return the means of simulated returns and their root mean squared standard error."""
    rng = np.random.default_rng(2)
    theta = np.repeat(np.arctan2(points[:, 1], points[:, 0])[:, None], n_rollouts, axis=1)
    speed, total = np.repeat(points[:, 2:], n_rollouts, axis=1), np.zeros_like(theta)
    for step in range(n_steps):
        torque = 2 * np.tanh(-0.5 * speed - np.sin(theta)) + 0.5 * rng.normal(size=theta.shape)
        torque, angle = np.clip(torque, -2, 2), (theta + np.pi) % (2 * np.pi) - np.pi
        total -= DISCOUNT**step * (angle**2 + 0.1 * speed**2 + 0.001 * torque**2)
        speed = np.clip(speed + (15 * np.sin(theta) + 3 * torque) * 0.05, -8, 8)
        theta = theta + speed * 0.05
    return total.mean(axis=1), np.sqrt(np.mean(total.var(axis=1) / n_rollouts))


def lstd(states, rewards, points):
    angle, speed = np.meshgrid(2 * np.pi * np.arange(20) / 20, np.linspace(-6, 6, 15))
    centers = np.column_stack([np.cos(angle).ravel(), np.sin(angle).ravel(), speed.ravel()]) * UNITS
    basis, level = rs.basis.RBF(centers, bandwidth=0.2), rewards.mean()
    data = rs.Trajectories(states * UNITS, rewards=rewards - level, dt=0.05)
    estimate = rs.plug_in(rs.moments.lstd_moments(data, basis, discount=DISCOUNT), rs.solvers.Ridge(0.1))
    return estimate.predict(basis(points * UNITS)) + level / (1 - DISCOUNT)


def fqe(states, actions, rewards, points, n_updates):
    """Rewards are standardised and values put back by hand, as d3rlpy's scaler does not undo itself."""
    import d3rlpy
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)

    def act(x):
        mean = 2 * torch.tanh(-0.5 * x[:, 2:3] - x[:, 1:2])
        return torch.clip(mean + 0.5 * torch.randn_like(mean), -2, 2)

    n, mean, spread = len(states), rewards.mean(), rewards.std()
    # d3rlpy drops the last step of an episode that is cut off: a dummy step after it saves the true one.
    padded_actions = np.concatenate([np.clip(actions, -2, 2), np.zeros((n, 1, 1))], axis=1)
    padded_rewards = np.concatenate([(rewards - mean) / spread, np.zeros((n, 1))], axis=1)
    cut = np.tile(np.arange(N_STEPS + 1) == N_STEPS, n).astype(np.float32)
    columns = (states.reshape(-1, 3), padded_actions.reshape(-1, 1), padded_rewards.reshape(-1, 1))
    columns = [column.astype(np.float32) for column in columns]
    dataset = d3rlpy.dataset.MDPDataset(*columns, np.zeros_like(cut), cut)
    agent = d3rlpy.algos.DDPGConfig(gamma=DISCOUNT).create(device="cpu:0")
    agent.build_with_dataset(dataset)
    agent.impl.predict_best_action = agent.impl.inner_predict_best_action = act
    config = d3rlpy.ope.FQEConfig(learning_rate=1e-3, gamma=DISCOUNT, batch_size=256)
    model = d3rlpy.ope.FQE(algo=agent, config=config, device="cpu:0")
    quiet = d3rlpy.logging.NoopAdapterFactory()
    model.fit(dataset, n_updates, n_steps_per_epoch=n_updates, logger_adapter=quiet, show_progress=False)
    many = np.repeat(points.astype(np.float32), 50, axis=0)
    values = model.predict_value(many, act(torch.as_tensor(many)).numpy()).reshape(-1, 50).mean(axis=1)
    return values * spread + mean / (1 - DISCOUNT)


def cartpole():
    """Return rows of the second task: the value of CartPole's target where episodes start.

    FQE is trained as in d3rlpy's documentation, with its defaults and for 100,000 updates, and asked on the
    way: the target network moves every 100 updates, so that K of them look K / 100 steps ahead.
    """
    env = environments()["CartPole"]
    data, chances = log_episodes(env, env.behavior, 100, np.random.default_rng(0))
    truth, _ = true_value(env, env.target)
    few, few_chances = log_episodes(env, env.behavior, 10, np.random.default_rng(1))
    rs.evaluate(few, env.target, discount=env.discount, behavior=few_chances)  # modules are loaded
    began = time.process_time()
    found = rs.evaluate(data, env.target, discount=env.discount, behavior=chances)
    rows = [("rs.evaluate", None, found.value, time.process_time() - began)]
    rows += [("d3rlpy FQE", *row) for row in discrete_fqe(data, env)]
    common = {"task": "CartPole, off policy", "truth": truth}
    for name, updates, value, seconds in rows:
        print(
            f"CartPole: {name} {updates or ''}: {seconds:.2f} s of processor, {value:.2f}, truth {truth:.2f}"
        )
    return [
        {**common, "method": name, "updates": updates, "seconds": seconds, "value": value}
        for name, updates, value, seconds in rows
    ]


def discrete_fqe(data, env):
    """Return updates, value and seconds at every tenth of the training; questions are not timed."""
    import d3rlpy
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)

    def act(x):
        chances = torch.as_tensor(env.target(x.double().numpy()))
        return torch.multinomial(chances, 1)[:, 0]

    steps = data.transitions()
    last = np.zeros(len(data.rewards), dtype=bool)
    last[data.step_offsets[1:] - 1] = True
    cut = last & ~steps.terminal
    dataset = d3rlpy.dataset.MDPDataset(
        steps.states.astype(np.float32), data.actions.reshape(-1, 1),
        data.rewards.reshape(-1, 1).astype(np.float32), steps.terminal.astype(np.float32),
        cut.astype(np.float32),
    )  # fmt: skip
    agent = d3rlpy.algos.DQNConfig(gamma=env.discount).create(device="cpu:0")
    agent.build_with_dataset(dataset)
    agent.impl.predict_best_action = agent.impl.inner_predict_best_action = act
    model = d3rlpy.ope.DiscreteFQE(
        algo=agent, config=d3rlpy.ope.FQEConfig(gamma=env.discount), device="cpu:0"
    )
    first, rows, seconds = data.states[data.offsets[:-1]].astype(np.float32), [], 0.0
    began = time.process_time()
    for epoch, _ in model.fitter(
        dataset, DOCUMENTED_UPDATES, n_steps_per_epoch=DOCUMENTED_UPDATES // 10, show_progress=False,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
    ):  # fmt: skip
        seconds += time.process_time() - began
        values = [model.predict_value(first, np.full((len(first), 1), action)).ravel() for action in range(2)]
        value = float(np.mean(np.sum(env.target(first) * np.stack(values, axis=1), axis=1)))
        rows.append((epoch * DOCUMENTED_UPDATES // 10, value, seconds))
        print(rows[-1], flush=True)
        began = time.process_time()
    return rows


def main():
    n_updates, rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, []
    data, unseen = roll_out(N_EPISODES, seed=0), roll_out(20, seed=1000)
    states = data.states.reshape(N_EPISODES, N_STEPS + 1, 3)
    actions, rewards = data.actions.reshape(N_EPISODES, N_STEPS, 1), data.rewards.reshape(N_EPISODES, N_STEPS)
    points = np.random.default_rng(1).permutation(unseen.states)[:400]
    truth, error = true_values(points)
    import d3rlpy  # noqa: F401  # the clock does not count what modules take to load, of either

    lstd(states[:3], rewards[:3], points[:3])
    print(f"truth: spread {truth.std():.1f}, standard error {error:.2f}")
    for name, evaluate in (
        ("LSTD", lambda: lstd(states, rewards, points)),
        ("d3rlpy FQE", lambda: fqe(states, actions, rewards, points, n_updates)),
    ):
        start = time.process_time()
        rmse = np.sqrt(np.mean((evaluate() - truth) ** 2))
        seconds = time.process_time() - start
        share = rmse / truth.std()
        print(f"{name:10} {seconds:7.2f} s of processor, RMSE {rmse:.2f}, {share:.3f} of the spread")
        rows.append(
            {"task": "Pendulum, on policy", "method": name, "seconds": seconds, "rmse": rmse,
             "share_of_spread": share}
        )  # fmt: skip
    rows += cartpole()
    found = {"transitions": data.n_transitions, "updates": n_updates, "truth_error": error, "rows": rows}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
