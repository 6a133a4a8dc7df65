"""HalfCheetah, a stress case: 17 state variables, 300 random features, and a truth by simulation.

Needs MuJoCo (``pip install 'gymnasium[mujoco]'``); run ``python examples/halfcheetah.py``, a few minutes. The
point is not a good fit, which a few hundred features of 17 variables cannot give from 30 000 steps, but what
the library says about it.
"""

import gymnasium
import numpy as np

import replaystats as rs

DISCOUNT, HORIZON, ROLLOUTS, POINTS = 0.98, 250, 10, 30
rng = np.random.default_rng(0)
env = gymnasium.make("HalfCheetah-v5")
gains = 0.3 * rng.normal(size=(env.action_space.shape[0], env.observation_space.shape[0]))


def policy(state):
    noise = 0.1 * rng.normal(size=gains.shape[0])
    return np.clip(np.tanh(gains @ state) + noise, -1, 1).astype(np.float32)


def simulated_return(state):
    """Return the discounted reward from an observed state (which lacks the horizontal place only)."""
    inner = env.unwrapped
    env.reset(seed=0)
    positions = np.concatenate([[0.0], state[: inner.model.nq - 1]])
    inner.set_state(positions, state[inner.model.nq - 1 :])
    total, now = 0.0, state
    for step in range(HORIZON):
        now, reward, *_ = inner.step(policy(now))
        total += DISCOUNT**step * float(reward)
    return total


def main():
    data = rs.readers.rollout(env, policy, n_episodes=30, seed=0)
    points = rng.permutation(rs.readers.rollout(env, policy, n_episodes=2, seed=99).transitions().states)[
        :POINTS
    ]
    returns = np.array([[simulated_return(point) for _ in range(ROLLOUTS)] for point in points])
    truth, error = returns.mean(axis=1), returns.std(axis=1, ddof=1) / np.sqrt(ROLLOUTS)
    print(data)
    print(f"true values {truth.mean():.1f}, spread {truth.std():.1f}, known to {error.mean():.1f}")
    basis = rs.basis.Standardized(rs.basis.RandomFourier(300, gamma=0.02, intercept=True))
    model = rs.LSTD(
        basis,
        discount=DISCOUNT,
        solver=rs.solvers.Ridge(1.0),
        resampling=rs.Resampling(n_resamples=50, n_jobs=2),
        random_state=0,
    ).fit(data)
    for name, values in (
        ("plug-in", model.plug_in_.predict(model.basis_(points))),
        ("replay", model.predict(points)),
    ):
        relative = np.sqrt(np.mean((values - truth) ** 2)) / truth.std()
        print(f"{name}: error {relative:.2f} of the spread of the true values")
    print(model.diagnose(points))


if __name__ == "__main__":
    main()
