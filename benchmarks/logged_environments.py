"""Eight environments of Gymnasium, many copies at a time: logs of one policy, and the true value of another.

The dynamics are Gymnasium's (``tests/unit/examples/test_logged_environments.py`` steps both side by side),
vectorised over episodes, so that 20,000 rollouts take seconds. Pendulum takes five torques. The true value
is that of the process without a time limit: a log that is cut off says nothing about what comes after.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec

import numpy as np
from worlds import World, softmax

import replaystats as rs

Policy = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Environment:
    """One environment with a policy that logs and a policy that is asked about.

    `reset` draws hidden states (n, h); `step` moves them; `observe` says what is logged of them.
    """

    name: str
    discount: float
    limit: int
    reset: Callable[[int, np.random.Generator], np.ndarray]
    step: Callable[[np.ndarray, np.ndarray, np.random.Generator], tuple[np.ndarray, np.ndarray, np.ndarray]]
    observe: Callable[[np.ndarray], np.ndarray]
    behavior: Policy
    target: Policy
    exact: Callable[[Policy], float] | None = None


def soften(best: Callable[[np.ndarray], np.ndarray], n_actions: int, epsilon: float) -> Policy:
    """Return a policy that takes `best` but with probability `epsilon`, when all actions are alike."""

    def policy(observations: np.ndarray) -> np.ndarray:
        probabilities = np.full((len(observations), n_actions), epsilon / n_actions)
        probabilities[np.arange(len(observations)), best(observations)] += 1.0 - epsilon
        return probabilities

    return policy


def draw(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return one action per row."""
    below = probabilities.cumsum(axis=1) < rng.random((len(probabilities), 1)) * (1 - 1e-12)
    return below.sum(axis=1)


def log_episodes(
    env: Environment, policy: Policy, n_episodes: int, rng: np.random.Generator
) -> tuple[rs.Trajectories, np.ndarray]:
    """Return episodes of `policy` as they are logged, and the probability of every logged action."""
    hidden, going = env.reset(n_episodes, rng), np.arange(n_episodes)
    first, steps = env.observe(hidden), []
    terminated = np.zeros(n_episodes, dtype=bool)
    for time in range(env.limit):
        probabilities = policy(env.observe(hidden))
        chosen = draw(probabilities, rng)
        hidden, reward, ended = env.step(hidden, chosen, rng)
        chance = probabilities[np.arange(len(chosen)), chosen]
        steps.append((going, np.full(len(going), time), env.observe(hidden), reward, chosen, chance))
        terminated[going[ended]] = True
        hidden, going = hidden[~ended], going[~ended]
        if not len(going):
            break
    columns = [np.concatenate(column) for column in zip(*steps, strict=True)]
    order = np.lexsort((columns[1], columns[0]))
    episode, _, states, rewards, actions, chances = (column[order] for column in columns)
    cuts = np.flatnonzero(np.diff(episode)) + 1
    data = rs.Trajectories(
        [np.vstack([s[None], rest]) for s, rest in zip(first, np.split(states, cuts), strict=True)],
        np.split(rewards, cuts),
        actions=np.split(actions, cuts),
        terminated=terminated,
        truncated=~terminated,
    )
    return data, chances


def true_value(
    env: Environment, policy: Policy, n_rollouts: int = 20_000, seed: int = 1
) -> tuple[float, float]:
    """Return the policy's value where episodes start, and its standard error (0 where it is solved for)."""
    if env.exact is not None:
        return env.exact(policy), 0.0
    rng = np.random.default_rng(seed)
    hidden, going = env.reset(n_rollouts, rng), np.arange(n_rollouts)
    total, weight = np.zeros(n_rollouts), 1.0
    while len(going) and weight > 1e-4 * (1 - env.discount):
        hidden, reward, ended = env.step(hidden, draw(policy(env.observe(hidden)), rng), rng)
        total[going] += weight * reward
        hidden, going = hidden[~ended], going[~ended]
        weight *= env.discount
    return float(total.mean()), float(total.std() / np.sqrt(n_rollouts))


# -- classic control -----------------------------------------------------------------------------------


def _cartpole_step(state, action, rng):
    _, speed, angle, turning = state.T
    sine, cosine = np.sin(angle), np.cos(angle)
    push = (np.where(action == 1, 10.0, -10.0) + 0.05 * turning**2 * sine) / 1.1
    turn = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
    drive = push - 0.05 * turn * cosine / 1.1
    after = state + 0.02 * np.column_stack([speed, drive, turning, turn])
    ended = (np.abs(after[:, 0]) > 2.4) | (np.abs(after[:, 2]) > 12 * np.pi / 180)
    return after, np.ones(len(state)), ended


def _cartpole_best(s):
    return (s @ np.array([1.0, 1.5, 18.0, 3.0]) > 0).astype(int)


def _mountain_step(state, action, rng):
    position, speed = state.T
    speed = np.clip(speed + (action - 1) * 0.001 - np.cos(3 * position) * 0.0025, -0.07, 0.07)
    position = np.clip(position + speed, -1.2, 0.6)
    speed = np.where((position <= -1.2) & (speed < 0), 0.0, speed)
    return np.column_stack([position, speed]), -np.ones(len(state)), (position >= 0.5) & (speed >= 0)


def _acrobot_slope(s, torque):
    t1, t2, v1, v2 = s.T
    d1 = 0.25 + (1 + 0.25 + np.cos(t2)) + 2.0
    d2 = (0.25 + 0.5 * np.cos(t2)) + 1.0
    phi2 = 0.5 * 9.8 * np.cos(t1 + t2 - np.pi / 2)
    phi1 = -0.5 * v2**2 * np.sin(t2) - v2 * v1 * np.sin(t2) + 1.5 * 9.8 * np.cos(t1 - np.pi / 2) + phi2
    a2 = (torque + d2 / d1 * phi1 - 0.5 * v1**2 * np.sin(t2) - phi2) / (0.25 + 1.0 - d2**2 / d1)
    return np.column_stack([v1, v2, -(d2 * a2 + phi1) / d1, a2])


def _acrobot_step(state, action, rng):
    torque, h = action - 1.0, 0.2
    k1 = _acrobot_slope(state, torque)
    k2 = _acrobot_slope(state + h / 2 * k1, torque)
    k3 = _acrobot_slope(state + h / 2 * k2, torque)
    k4 = _acrobot_slope(state + h * k3, torque)
    after = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    after[:, :2] = (after[:, :2] + np.pi) % (2 * np.pi) - np.pi
    after[:, 2:] = np.clip(after[:, 2:], [-4 * np.pi, -9 * np.pi], [4 * np.pi, 9 * np.pi])
    ended = -np.cos(after[:, 0]) - np.cos(after[:, 1] + after[:, 0]) > 1.0
    return after, np.where(ended, 0.0, -1.0), ended


def _acrobot_observe(s):
    return np.column_stack([np.cos(s[:, 0]), np.sin(s[:, 0]), np.cos(s[:, 1]), np.sin(s[:, 1]), s[:, 2:]])


TORQUES = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])


def _pendulum_step(state, action, rng):
    angle, speed = state.T
    torque = TORQUES[action]
    cost = ((angle + np.pi) % (2 * np.pi) - np.pi) ** 2 + 0.1 * speed**2 + 0.001 * torque**2
    speed = np.clip(speed + (15.0 * np.sin(angle) + 3.0 * torque) * 0.05, -8.0, 8.0)
    return np.column_stack([angle + speed * 0.05, speed]), -cost, np.zeros(len(state), dtype=bool)


def _pendulum_best(o):
    cosine, sine, speed = o.T
    pump = np.where(speed >= 0, 4, 0)  # swing up
    wanted = np.clip(-8.0 * sine - 2.0 * speed, -2.0, 2.0)  # balance near the top
    return np.where(cosine > 0.8, np.rint(wanted + 2.0).astype(int), pump)


# -- discrete states -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A finite decision process: probabilities (S, A, S), mean rewards (S, A, S), ends (S, A, S), start."""

    chances: np.ndarray
    rewards: np.ndarray
    ends: np.ndarray
    start: np.ndarray
    discount: float

    @classmethod
    def of(cls, name: str, discount: float, **settings) -> Table:
        import gymnasium

        env = gymnasium.make(name, **settings).unwrapped
        n, a = env.observation_space.n, env.action_space.n
        chances, rewards, ends = (np.zeros((n, a, n)) for _ in range(3))
        for s in range(n):
            for act in range(a):
                for p, after, reward, ended in env.P[s][act]:
                    chances[s, act, after] += p
                    rewards[s, act, after], ends[s, act, after] = reward, ended
        return cls(chances, rewards, ends > 0, np.asarray(env.initial_state_distrib), discount)

    def values(self, policy: np.ndarray) -> np.ndarray:
        """Return the value of every action (S, A) under probabilities (S, A), by one linear solve."""
        mean = (self.chances * self.rewards).sum(axis=2)
        onward = self.chances * ~self.ends
        moves = np.einsum("sa,sat->st", policy, onward)
        value = np.linalg.solve(np.eye(len(moves)) - self.discount * moves, (policy * mean).sum(axis=1))
        return mean + self.discount * onward @ value

    def best(self) -> np.ndarray:
        """Return the best action of every state, by policy iteration."""
        n, a = self.chances.shape[:2]
        best = np.zeros(n, dtype=int)
        policy = np.full((n, a), 1.0 / a)
        for _ in range(200):
            q = self.values(policy)
            new = np.argmax(q + 1e-9 * np.eye(a)[best], axis=1)
            if (new == best).all() and policy.max() == 1.0:
                break
            best, policy = new, np.eye(a)[new]
        return best

    def environment(self, name: str, limit: int, noise: tuple[float, float]) -> Environment:
        best, (n, a) = self.best(), self.chances.shape[:2]
        cumulative = self.chances.cumsum(axis=2)

        def step(state, action, rng):
            s = state[:, 0].astype(int)
            after = (cumulative[s, action] < rng.random((len(s), 1)) * (1 - 1e-12)).sum(axis=1)
            return after[:, None].astype(float), self.rewards[s, action, after], self.ends[s, action, after]

        def exact(policy):
            probabilities = policy(np.arange(n)[:, None].astype(float))
            return float(self.start @ (probabilities * self.values(probabilities)).sum(axis=1))

        behavior, target = (soften(lambda s: best[s[:, 0].astype(int)], a, e) for e in noise)
        return Environment(
            name=name,
            discount=self.discount,
            limit=limit,
            reset=lambda m, rng: rng.choice(n, size=(m, 1), p=self.start).astype(float),
            step=step,
            observe=lambda s: s,
            behavior=behavior,
            target=target,
            exact=exact,
        )


def _card(rng, n):
    return np.minimum(rng.integers(1, 14, n), 10)


def _blackjack_reset(n, rng):
    """Hidden: the player's sum and usable ace, the dealer's card (as logged), the dealer's second card."""
    first, second = _card(rng, n), _card(rng, n)
    ace = ((first == 1) | (second == 1)).astype(float)
    return np.column_stack([first + second + 10 * ace, _card(rng, n), ace, _card(rng, n)]).astype(float)


def _dealer_score(shown, hole, rng):
    total, ace = shown + hole, (shown == 1) | (hole == 1)
    while True:
        best = np.where(ace & (total + 10 <= 21), total + 10, total)
        more = best < 17
        if not more.any():
            return np.where(best > 21, 0, best)
        card = np.where(more, _card(rng, len(total)), 0)
        total, ace = total + card, ace | (card == 1)


def _blackjack_step(state, action, rng):
    total, shown, ace, hole = state.T
    card = _card(rng, len(state))
    low = total - 10 * ace + card
    ace_after = ((ace == 1) | (card == 1)) & (low + 10 <= 21)
    hit_total = low + 10 * ace_after
    hit = action == 1
    bust = hit & (hit_total > 21)
    dealer = _dealer_score(shown, hole, rng)
    reward = np.where(hit, np.where(bust, -1.0, 0.0), np.sign(total - dealer))
    # Sutton and Barto's rule is off by default; a natural pays no extra.
    after = np.column_stack([np.where(hit, hit_total, total), shown, np.where(hit, ace_after, ace), hole])
    return after, reward, ~hit | bust


@cache
def newest(name: str) -> str:
    """Return the newest version of an environment that the installed Gymnasium has."""
    import gymnasium

    return max(each for each in gymnasium.registry if each.startswith(name))


def environments() -> dict[str, Environment]:
    """Return all eight by name."""
    made = [
        Environment(
            name="CartPole", discount=0.99, limit=500, step=_cartpole_step, observe=lambda s: s,
            reset=lambda n, rng: rng.uniform(-0.05, 0.05, (n, 4)),
            behavior=soften(_cartpole_best, 2, 0.5), target=soften(_cartpole_best, 2, 0.2),
        ),
        Environment(
            name="MountainCar", discount=0.99, limit=200, step=_mountain_step, observe=lambda s: s,
            reset=lambda n, rng: np.column_stack([rng.uniform(-0.6, -0.4, n), np.zeros(n)]),
            behavior=soften(lambda s: np.where(s[:, 1] >= 0, 2, 0), 3, 0.4),
            target=soften(lambda s: np.where(s[:, 1] >= 0, 2, 0), 3, 0.1),
        ),
        Environment(
            name="Acrobot", discount=0.99, limit=500, step=_acrobot_step, observe=_acrobot_observe,
            reset=lambda n, rng: rng.uniform(-0.1, 0.1, (n, 4)),
            behavior=soften(lambda o: np.where(o[:, 4] >= 0, 0, 2), 3, 0.4),
            target=soften(lambda o: np.where(o[:, 4] >= 0, 0, 2), 3, 0.1),
        ),
        Environment(
            name="Pendulum", discount=0.95, limit=200, step=_pendulum_step,
            observe=lambda s: np.column_stack([np.cos(s[:, 0]), np.sin(s[:, 0]), s[:, 1]]),
            reset=lambda n, rng: np.column_stack([rng.uniform(-np.pi, np.pi, n), rng.uniform(-1, 1, n)]),
            behavior=soften(_pendulum_best, 5, 0.4), target=soften(_pendulum_best, 5, 0.1),
        ),
        Table.of("FrozenLake-v1", 0.99).environment("FrozenLake", 100, (0.4, 0.1)),
        Table.of(newest("CliffWalking-v"), 0.99).environment("CliffWalking", 200, (0.3, 0.1)),
        Table.of(newest("Taxi-v"), 0.99).environment("Taxi", 200, (0.4, 0.1)),
        Environment(
            name="Blackjack", discount=0.99, limit=50, step=_blackjack_step, observe=lambda s: s[:, :3],
            reset=_blackjack_reset,
            behavior=soften(lambda s: (s[:, 0] < 18).astype(int), 2, 0.8),
            target=soften(lambda s: (s[:, 0] < 18).astype(int), 2, 0.05),
        ),
    ]  # fmt: skip
    return {env.name: env for env in made}


# -- off policy, as worlds of `ope_worlds.py` ----------------------------------------------------------------


def _world(env: Environment, n: int, policies: tuple[Policy, Policy] | None = None, **settings: str) -> World:
    old, new = policies or (env.behavior, env.target)

    def draw_log(rng: np.random.Generator) -> tuple[rs.Trajectories, Policy, dict[str, object]]:
        data, chances = log_episodes(env, old, n, rng)
        return data, new, {"discount": env.discount, "behavior": chances, **settings}

    def error() -> float:
        data, _ = log_episodes(env, new, 400, np.random.default_rng(5))
        return float(np.std(_returns(data, env.discount)) / np.sqrt(n))

    return World(draw_log, lambda: true_value(env, new, 4000)[0], True, error)


def _returns(data: rs.Trajectories, discount: float) -> list[float]:
    parts = np.split(data.rewards, data.step_offsets[1:-1])
    return [float(r @ discount ** np.arange(len(r))) for r in parts]


def _steep(gain: float, s: np.ndarray) -> np.ndarray:
    z = gain * (s @ np.array([1.0, 1.5, 18.0, 3.0]))
    return softmax(np.column_stack([-z, z]))


def lunar_lander(n: int) -> World | None:
    """Return LunarLander, its heuristic with .5 and .2 of random actions; None where it is not installed."""
    if not all(find_spec(name) for name in ("gymnasium", "Box2D", "pygame")):
        return None
    import gymnasium
    from gymnasium.envs.box2d.lunar_lander import heuristic

    env = gymnasium.make(newest("LunarLander-v"))

    def chances(share: float, x: np.ndarray) -> np.ndarray:
        best = np.array([heuristic(env.unwrapped, s) for s in x])
        return share / 4 + (1.0 - share) * np.eye(4)[best]

    def log(n: int, share: float, seed: int) -> tuple[rs.Trajectories, np.ndarray]:
        rng, episodes = np.random.default_rng(seed), []
        for _ in range(n):
            state, _ = env.reset(seed=int(rng.integers(2**31)))
            states, acts, rewards, chance, ended = [state], [], [], [], False
            while not ended and len(acts) < 1000:
                best = heuristic(env.unwrapped, state)
                act = best if rng.random() < 1.0 - share else int(rng.integers(4))
                state, reward, ended, _, _ = env.step(act)
                chance.append(share / 4 + (1.0 - share) * (act == best))
                states.append(state)
                acts.append(act)
                rewards.append(float(reward))
            episodes.append((np.array(states, float), np.array(rewards), np.array(acts), chance, ended))
        states, rewards, acts, chance, ended = zip(*episodes, strict=True)
        ends = {"terminated": np.array(ended), "truncated": ~np.array(ended)}
        return rs.Trajectories(states, rewards, actions=acts, **ends), np.concatenate(chance)

    def draw_log(rng: np.random.Generator) -> tuple[rs.Trajectories, Policy, dict[str, object]]:
        data, chance = log(n, 0.5, int(rng.integers(2**31)))
        return data, partial(chances, 0.2), {"discount": 0.99, "behavior": chance}

    @cache
    def returns() -> np.ndarray:
        return np.array(_returns(log(400, 0.2, 1)[0], 0.99))

    return World(draw_log, lambda: returns().mean(), True, lambda: float(returns().std() / np.sqrt(n)))


def gymnasium_worlds() -> dict[str, World]:
    """Return pairs of policies on CartPole, Pendulum and LunarLander by name."""
    env = environments()
    pair = partial(_steep, 0.3), partial(_steep, 0.39)
    found = {
        "CartPole off policy, 100": _world(env["CartPole"], 100),
        "CartPole softmax, 1 to 1.3 times as sharp, 50": _world(env["CartPole"], 50, pair),
        "CartPole off policy, 100, fitted Q": _world(env["CartPole"], 100, method="fitted Q"),
        "Pendulum off policy, 100, fitted Q": _world(env["Pendulum"], 100, method="fitted Q"),
        "LunarLander off policy, lunar, 40": lunar_lander(40),
    }
    return {name: one for name, one in found.items() if one is not None}
