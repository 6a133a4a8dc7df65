"""`rs.evaluate` as people use it: what is reported, what it assumes, and what it refuses."""

import tracemalloc

import numpy as np
import pytest
from tests.unit.ope.test_estimates import chain, target

import replaystats as rs
from support.cases import slow_except


def pole(n=50, seed=0, noise=0.5):
    """CartPole under a policy that balances, and at a share `noise` of the steps pushes at random."""
    gymnasium = pytest.importorskip("gymnasium")
    rng = np.random.default_rng(seed)

    def policy(state):
        best = int(state @ np.array([1.0, 1.5, 18.0, 3.0]) > 0)
        return int(rng.integers(2)) if rng.random() < noise else best

    return rs.readers.rollout(gymnasium.make("CartPole-v1"), policy, n_episodes=n, seed=seed)


def balance(noise):
    def policy(states):
        best = (states @ np.array([1.0, 1.5, 18.0, 3.0]) > 0).astype(int)
        return (1 - noise) * np.eye(2)[best] + noise / 2

    return policy


def test_on_policy_headline_is_the_mean_return_where_all_ended():
    data, _ = chain(60, cut=60)
    assert data.terminated.all()
    found = rs.evaluate(data, discount=0.9)
    assert found.value == pytest.approx(found.log.returns.mean())
    assert found.method == "mean logged return"
    assert found.reliable
    low, high = found.interval
    assert low < found.value < high
    assert [w.name for w in found.estimates] == ["mean logged return"]


def test_off_policy_of_discrete_states_is_counted():
    data, chances = chain(300, seed=2)
    found = rs.evaluate(data, target, discount=0.9, behavior=chances, method=None)
    assert found.method == "count model"
    assert found.log.overlap.behavior == "given"
    assert all(w.seconds >= 0 for w in found.estimates)


def test_probabilities_are_counted_where_none_were_logged_and_that_is_said():
    data, _ = chain(300, seed=1)
    found = rs.evaluate(data, target, discount=0.9)
    assert found.log.overlap.behavior == "counted"


def named(data):
    """The same episodes with names for states and for actions, these in another order."""
    words = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
    states = [words[part[:, 0].astype(int)] for part in np.split(data.states, data.offsets[1:-1])]
    moves = np.array(["b stay", "a go"])[data.actions.ravel()]
    return rs.Trajectories(
        states, np.split(data.rewards, data.step_offsets[1:-1]), np.split(moves, data.step_offsets[1:-1]),
        terminated=data.terminated, truncated=~data.terminated,
    )  # fmt: skip


def test_names_of_states_and_actions_give_what_numbers_give():
    data, chances = chain(100, seed=1)
    words = named(data)
    assert words.action_labels == ("a go", "b stay")
    stay = lambda s: np.zeros(len(s), dtype=int)  # noqa: E731
    numbers = rs.evaluate(data, stay, discount=0.9, behavior=chances)
    for policy in (lambda s: np.full(len(s), "b stay"), lambda s: np.tile([0.0, 1.0], (len(s), 1))):
        for basis in ("auto", rs.basis.Tabular()):
            found = rs.evaluate(words, policy, discount=0.9, behavior=chances, basis=basis)
            assert found.method == numbers.method
            assert (found.value, *found.interval) == pytest.approx(
                (numbers.value, *numbers.interval), rel=1e-9
            )
    with pytest.raises(ValueError, match=r"returns actions of the log \(a go, b stay\); got 'c' from it"):
        rs.evaluate(words, lambda s: np.full(len(s), "c"), discount=0.9)
    with pytest.raises(ValueError, match=r"`behavior` must be .* actions of the log"):
        rs.evaluate(words, policy, discount=0.9, behavior=lambda s: np.full(len(s), "c"))


@pytest.mark.parametrize("policy", [None, target])
def test_a_table_as_the_basis_is_the_count_model(policy):
    data, _ = chain(100, seed=2, cut=6)
    counted = rs.evaluate(data, policy, discount=0.9)
    table = rs.evaluate(data, policy, discount=0.9, basis=rs.basis.Tabular())
    assert (table.value, *table.interval) == (counted.value, *counted.interval)
    assert "a value for every state" in table.log.choices["basis"].reason


@pytest.mark.parametrize("n_steps", slow_except([[30, 28, 30, 25]], [[30, 30, 30, 30], [30, 28, 30, 25]]))
def test_a_log_that_never_reached_the_goal_says_nothing_of_another_policy(n_steps):
    """Bounds of -10 to -10 held, though another policy may come to an end."""
    rng = np.random.default_rng(0)
    n_steps = 3 * n_steps
    data = rs.Trajectories(
        [rng.normal(size=(n + 1, 2)).cumsum(axis=0) for n in n_steps],
        [-np.ones(n) for n in n_steps],
        actions=[rng.integers(2, size=n) for n in n_steps],
        terminated=False,
        truncated=True,
    )
    for policy in (lambda s: np.ones(len(s), dtype=int), np.ones(data.n_transitions)):
        found = rs.evaluate(data, policy, discount=0.9, behavior=np.full(data.n_transitions, 0.5))
        assert not found.reliable
        assert "Do not rely on it" in found.sentence


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_probabilities_in_single_precision(kind):
    """1/3 + 2/3 is 1.00000003 in single precision, and was refused as not 1."""
    data, chances = chain(60, seed=1)
    third = np.array([1 / 3, 2 / 3])
    if kind == "torch":
        torch = pytest.importorskip("torch")
        single = lambda s: torch.tensor(third, dtype=torch.float32).expand(len(s), 2)  # noqa: E731
    else:
        single = lambda s: np.tile(third.astype(np.float32), (len(s), 1))  # noqa: E731
    found = rs.evaluate(data, single, discount=0.9, behavior=chances)
    exact = rs.evaluate(data, lambda s: np.tile(third, (len(s), 1)), discount=0.9, behavior=chances)
    assert found.value == pytest.approx(exact.value, rel=1e-6)
    with pytest.raises(ValueError, match=r"sum to 1; got a minimum of 0.333 and sums from 0.999 to 0.999"):
        rs.evaluate(data, lambda s: np.tile([0.333, 0.666], (len(s), 1)), discount=0.9)


def bandit(n=300, seed=0):
    """Visitors with two numbers each; arm 1 is taken with probability logistic(x0), and earns about x0."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    chance = 1 / (1 + np.exp(-x[:, 0]))
    arm = (rng.random(n) < chance).astype(int)
    states, rewards = np.stack([x, x], axis=1), (arm * x[:, 0] + 0.3 * rng.normal(size=n))[:, None]
    return states, rewards, arm, np.where(arm == 1, chance, 1 - chance)


def where_positive(states):
    return (states[:, 0] > 0).astype(int)


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        (lambda s: int(s[0] > 0), r"all states at once, a NumPy array \(300, 2\); got TypeError from it"),
        (lambda s: s["x"], "all states at once, .*; got IndexError from it"),
        (lambda s: 1, "got int from it"),
        (lambda s: (np.ones(len(s), dtype=int), None), "got tuple from it"),  # as model.predict returns
    ],
)
def test_a_policy_that_fails_says_what_it_was_asked(policy, sentence):
    states, rewards, arm, _ = bandit()
    data = rs.Trajectories(states, rewards, actions=arm[:, None], terminated=True)
    with pytest.raises(TypeError, match=f"`policy` must be a function .*{sentence}"):
        rs.evaluate(data, policy, discount=0.9)


def test_labels_in_disguise_are_asked_about():
    """One-hot rows and floats are numbers to `Trajectories`; an error in `states` was no help."""
    states, rewards, arm, _ = bandit()
    rows = rs.Trajectories(states, rewards, actions=np.eye(2)[arm][:, None], terminated=True)
    with pytest.raises(ValueError, match=r"`policy` must be .* 2 numbers, as were logged.*pass labels"):
        rs.evaluate(rows, where_positive, discount=0.9)
    floats = rs.Trajectories(states, rewards, actions=arm[:, None].astype(float), terminated=True)
    found = rs.evaluate(floats, where_positive, discount=0.9)
    assert "where they are labels, pass them as integers" in " ".join(found.notes)


def test_steps_that_cost_the_same_until_the_goal_are_no_reason_to_doubt():
    """Each step costs 1 and right leads to the goal: returns differ by how long it takes."""
    rng, states, actions = np.random.default_rng(0), [], []
    for _ in range(60):
        path, taken = [0], []
        while path[-1] < 3:
            taken.append(int(rng.random() < 0.5))
            path.append(path[-1] + 1 if taken[-1] else max(0, path[-1] - 1))
        states.append(path)
        actions.append(taken)
    costs = [-np.ones(len(taken)) for taken in actions]
    data = rs.Trajectories(states, costs, actions, terminated=np.ones(60, bool))
    found = rs.evaluate(data, lambda s: np.ones(len(s), int), discount=0.9)
    assert found.value == pytest.approx(-(1 + 0.9 + 0.81))
    assert found.reliable
    endless = rs.Trajectories(states, costs, actions, terminated=np.zeros(60, bool))
    alike = rs.evaluate(endless, lambda s: np.ones(len(s), int), discount=0.9)
    assert not alike.reliable
    assert "returned the same" in alike.sentence


def test_few_successes_get_a_lopsided_interval():
    rewards = np.zeros((100, 1))
    rewards[:2] = 1.0
    data = rs.Trajectories(np.zeros((100, 2)), rewards, terminated=np.ones(100, bool))
    found = rs.evaluate(data, discount=0.9)
    low, high = found.interval
    assert low > 0
    assert high - found.value > 1.5 * (found.value - low)


def test_timeouts_taken_for_ends_are_asked_about():
    """19 of 50 episodes had the same greatest length, and `done` was taken for an end."""
    data = pole(50, noise=0.3)
    done = rs.Trajectories(
        np.split(data.states, data.offsets[1:-1]), np.split(data.rewards, data.step_offsets[1:-1]),
        terminated=np.ones(50, bool),
    )  # fmt: skip
    assert (done.n_steps == 500).sum() >= 5
    found = rs.evaluate(done, discount=0.99)
    assert any("greatest length" in note for note in found.notes)
    assert not any("greatest length" in note for note in rs.evaluate(data, discount=0.99).notes)


def test_other_start_states():
    data, _ = chain(200, seed=2)
    found = rs.evaluate(data, discount=0.9, start=[[3.0]])
    assert found.method == "count model"
    assert found.value > rs.evaluate(data, discount=0.9, start=[[1.0]]).value


def test_continuous_actions_use_the_model_and_say_so():
    rng = np.random.default_rng(0)
    states = rng.normal(size=(60, 6, 1))
    actions = rng.normal(size=(60, 5, 1))
    data = rs.Trajectories(states, rewards=-(actions[:, :, 0] ** 2), actions=actions)
    found = rs.evaluate(data, lambda s: np.zeros((len(s), 1)), discount=0.5)
    assert found.method == "LSTDQ"
    assert found.value == pytest.approx(0.0, abs=0.5)


def test_one_long_episode_is_cut_into_blocks():
    data = rs.simulate.ornstein_uhlenbeck(1, n_steps=400, dt=0.1, random_state=0)
    found = rs.evaluate(data, discount=0.9, basis=rs.basis.Fourier(1))
    assert found.method == "LSTD"
    assert any("One episode" in note for note in found.notes)


def test_the_record_as_frame_dict_and_text():
    data, chances = chain(100)
    found = rs.evaluate(data, target, discount=0.9, behavior=chances)
    assert list(found.to_frame()["value"]) == [w.value for w in found.estimates]
    answer = found.to_dict()
    assert answer["value"] == found.value
    assert answer["overlap"]["behavior"] == "given"
    assert found.sentence in str(found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"discount": 1.5}, "`discount` must be"),
        ({"discount": 0.9, "basis": "cubic"}, "`basis` must be"),
        ({"discount": 0.9, "confidence_level": 95}, "`confidence_level` must be"),
        ({"discount": 0.9, "policy": target, "behavior": np.zeros(3)}, "`behavior` must be"),
        ({"discount": 0.9, "start": [[1.0, 2.0]]}, "`start` must be"),
        ({"discount": 0.9, "reward_range": (1, 0)}, "`reward_range` must be"),
        ({"discount": 0.9, "reward_range": (-9, -8)}, "`reward_range` must be a range that holds all logged"),
    ],
)
def test_refusals(arguments, message):
    data, _ = chain(20)
    with pytest.raises(ValueError, match=message):
        rs.evaluate(data, **arguments)


def test_a_policy_needs_actions():
    data = rs.Trajectories([[0.0, 1.0], [1.0, 0.0]], [[1.0], [0.0]], terminated=[True, True])
    with pytest.raises(ValueError, match="actions"):
        rs.evaluate(data, target, discount=0.9)


def value_of_chain(right):
    """The value of `chain` from its equation: a third in each of the states 1, 2, 3, of which 0 ends."""
    moves, earned = np.zeros((3, 3)), np.zeros(3)
    for s in (1, 2, 3):
        up = 0.8 * right(s)
        earned[s - 1] = up * (s >= 2) - 0.2 * right(s)
        moves[s - 1, min(3, s + 1) - 1] += up
        if s > 1:
            moves[s - 1, s - 2] += 1 - up
    return np.linalg.solve(np.eye(3) - 0.9 * moves, earned).mean()


def test_the_chains_own_equation_has_the_mean_of_its_returns():
    """3,000 episodes to their end; their mean return is off by three standard errors at most."""
    data, _ = chain(3000, seed=9, cut=300)
    returns = rs.evaluate(data, discount=0.9).log.returns
    error = returns.std(ddof=1) / np.sqrt(3000)
    assert abs(returns.mean() - value_of_chain(lambda s: 0.3 + 0.1 * s)) < 3 * error


@pytest.mark.statistical
@pytest.mark.parametrize("off_policy", [False, True])
def test_interval_covers_the_value(off_policy, numbers):
    """200 logs of 40 episodes; .93 and 3 Monte-Carlo errors below."""
    exact = value_of_chain(
        (lambda s: target(np.array([[s]]))[0, 1]) if off_policy else lambda s: 0.3 + 0.1 * s
    )
    hits = 0
    for number in numbers(200):
        data, chances = chain(40, seed=1000 + number)
        found = (
            rs.evaluate(data, target, discount=0.9, behavior=chances) if off_policy
            else rs.evaluate(data, discount=0.9)
        )  # fmt: skip
        hits += found.interval.low <= exact <= found.interval.high
    assert hits / 200 > 0.93 - 3 * np.sqrt(0.05 * 0.95 / 200)


@pytest.mark.slow
def test_an_impossible_value_is_called_so():
    """LSTDQ on CartPole gave 110.5 where no more than 100 is possible."""
    data = pole(40, noise=0.5)
    basis = rs.basis.Standardized(rs.basis.Polynomial(2, 4))
    found = rs.evaluate(data, balance(0.2), discount=0.99, basis=basis, method="LSTDQ")
    assert not found.reliable
    assert found.bounds[1] == pytest.approx(100.0)
    (model,) = found.estimates
    assert ("impossible" in model.failed_check) == (not found.bounds[0] <= model.value <= found.bounds[1])
    assert found.interval.low <= found.value <= found.interval.high


@pytest.mark.slow
def test_a_basis_that_is_too_small_is_rejected():
    """CartPole with a small basis: 85.9 [82.1, 89.6] was reported; the truth was 92.4."""
    basis = rs.basis.Standardized(rs.basis.Polynomial(1, 4))
    found = rs.evaluate(pole(60), discount=0.99, basis=basis, method="LSTD")
    assert any("functions outside the basis" in reason for reason in found.failed_checks)


def test_nothing_varies_is_not_certainty():
    data = rs.Trajectories(np.zeros((20, 3)), np.zeros((20, 2)), terminated=np.ones(20, bool))
    found = rs.evaluate(data, discount=0.9)
    assert not found.reliable
    assert "all 20 episodes returned the same" in found.sentence
    ranged = rs.evaluate(data, discount=0.9, reward_range=(0, 1))
    assert ranged.reliable
    assert ranged.interval.high == pytest.approx(1.9 * (1 - 0.025 ** (1 / 20)), rel=0.1)  # rule of three


@pytest.fixture(scope="module")
def visitors():
    """A log of the bandit, and the probabilities of its actions, with which the answer is reliable."""
    states, rewards, arm, chance = bandit()
    data = rs.Trajectories(states, rewards, actions=arm[:, None], terminated=True)
    assert rs.evaluate(data, where_positive, discount=1.0, behavior=chance).reliable
    return data, chance


WRONG = [lambda p: p / 2, lambda p: 1 - p, lambda p: np.full(len(p), 0.9)]


@pytest.mark.parametrize("wrong", slow_except(WRONG[:1], WRONG))
def test_probabilities_of_something_else_are_found_and_not_used(visitors, wrong):
    data, chance = visitors
    found = rs.evaluate(data, where_positive, discount=1.0, behavior=wrong(chance))
    assert found.method == "LSTDQ"
    assert any("ratios of probabilities have the mean" in note for note in found.notes)
    asked = rs.evaluate(data, where_positive, discount=1.0, behavior=wrong(chance), method="doubly robust")
    assert not asked.reliable


def test_compare_is_paired():
    data, chances = chain(300, seed=2)
    policies = {"new": target, "same": target, "lazy": lambda s: np.zeros(len(s), int)}
    found = rs.compare(data, policies, discount=0.9, behavior=chances)
    same, better, _ = found.differences
    assert (same.value, same.p_value) == (0.0, 1.0) or same.p_value >= 0.4
    assert same.interval.low <= 0.0 <= same.interval.high
    assert better.value > 0
    assert better.p_value < 0.05
    assert "lazy" not in found.may_be_best
    assert set(found.may_be_best) == {"new", "same"}
    assert found.to_dict()["may_be_best"] == list(found.may_be_best)
    assert "new - lazy" in str(found)
    with pytest.raises(TypeError, match="`policies` must be a dict of two policies or more"):
        rs.compare(data, {"new": target}, discount=0.9)


def test_users_are_what_is_independent():
    """8 users with 1 to 160 episodes each, who differ: .95 within three standard errors of 200 logs."""
    user = np.repeat(np.arange(8), [1, 2, 5, 10, 20, 40, 80, 160])
    hits = 0
    for seed in range(200):
        rng = np.random.default_rng([7, seed])
        y = rng.normal(size=8)[user] + rng.normal(size=318)
        data = rs.Trajectories(np.zeros((318, 2)), rewards=y[:, None], terminated=True)
        found = rs.evaluate(data, discount=1.0, units=user)
        assert found.log.n_units == 8
        hits += found.interval.low <= 0.0 <= found.interval.high
    assert hits >= 0.95 * 200 - 3 * np.sqrt(0.95 * 0.05 * 200)
    with pytest.raises(ValueError, match="`units` must be one label for each of the 318 episodes"):
        rs.evaluate(data, discount=1.0, units=user[:5])


def test_what_no_log_can_contradict_is_said():
    rng, user = np.random.default_rng(0), np.repeat(np.arange(30), 2)
    data = rs.Trajectories(np.zeros((60, 2)), rewards=rng.normal(size=(60, 1)), terminated=True)
    sentence = rs.evaluate(data, discount=1.0).sentence
    assert (
        "No test contradicts its assumptions (independent). The log cannot test others (outcomes, users)"
        in sentence
    )
    assert "users" not in rs.evaluate(data, discount=1.0, units=user).sentence
    few = rs.Trajectories(np.zeros((5, 2)), rewards=rng.normal(size=(5, 1)), terminated=True)
    assert "The log cannot test its assumptions (independent" in rs.evaluate(few, discount=1.0).sentence
    acts = rng.integers(2, size=(60, 1))
    bandit = rs.Trajectories(np.zeros((60, 2)), rewards=1.0 * acts, actions=acts, terminated=True)
    always = lambda states: np.ones(len(states), int)  # noqa: E731
    assert "confounding" in rs.evaluate(bandit, always, discount=1.0).sentence
    assert "confounding" not in rs.evaluate(bandit, always, discount=1.0, behavior=np.full(60, 0.5)).sentence


@pytest.mark.slow
def test_a_hidden_severity_that_moved_treatment_and_outcome_is_seen():
    """A noisy reading is logged; what doctors saw is in earlier readings and rewards."""
    rng = np.random.default_rng(3)
    severity = rng.normal(size=300)
    columns = [severity + rng.normal(size=300)], [], []
    for _ in range(5):
        treated = (rng.random(300) < 1 / (1 + np.exp(-1.5 * severity))).astype(int)
        severity = 0.9 * severity - 0.3 * treated + 0.3 * rng.normal(size=300)
        for column, new in zip(columns, (severity + rng.normal(size=300), -severity, treated), strict=True):
            column.append(new)
    data = rs.Trajectories(*(np.stack(column, axis=1) for column in columns), terminated=True)
    found = rs.evaluate(data, lambda s: np.tile([0.2, 0.8], (len(s), 1)), discount=1.0)
    assert "estimated from the state, are wrong" in found.sentence


def line(n, horizon, rng):
    """Five states in a row, the last of which pays; episodes of one length."""
    s = np.zeros(n, int)
    states, actions, rewards = [s], [], []
    for _ in range(horizon):
        a = rng.integers(2, size=n)
        rewards.append(1.0 * (s == 4))
        actions.append(a)
        s = np.where(rng.random(n) < 0.8, np.clip(s + 2 * a - 1, 0, 4), s)
        states.append(s)
    columns = (np.stack(part, axis=1) for part in (states, rewards, actions))
    return rs.Trajectories(*columns, terminated=True)


def test_episodes_of_one_length_are_a_horizon():
    data = line(200, 6, np.random.default_rng(0))
    right = lambda s: np.tile([0.2, 0.8], (len(s), 1))  # noqa: E731
    found = rs.evaluate(data, right, discount=1.0, behavior=np.full(1200, 0.5))
    assert found.horizon == 6
    assert "over 6 steps" in found.sentence
    assert any("horizon=None" in note for note in found.notes)
    assert found.bounds == (0.0, 6.0)
    shorter = rs.evaluate(data, discount=1.0, horizon=4)
    assert shorter.value == pytest.approx(data.rewards.reshape(200, 6)[:, :4].sum(axis=1).mean())
    with pytest.raises(ValueError, match="`horizon` must be"):
        rs.evaluate(data, discount=1.0, horizon="long")


def test_a_policy_may_write_into_its_argument():
    data, chances = chain(100, seed=2)

    def careless(states):
        right = target(states)
        states[:] = -1.0
        return right

    settings = {"discount": 0.9, "behavior": chances}
    assert rs.evaluate(data, careless, **settings).value == rs.evaluate(data, target, **settings).value


def test_other_names_of_the_discount_are_refused_with_the_right_one():
    data, _ = chain(20)
    with pytest.raises(TypeError, match="The discount factor is `discount`"):
        rs.evaluate(data, gamma=0.9)
    with pytest.raises(TypeError, match="`discount` must be given"):
        rs.evaluate(data)


def test_start_states_outside_the_log_are_not_reliable():
    data, _ = chain(200, seed=2)
    assert rs.evaluate(data, discount=0.9, start=[[3.0]]).reliable
    outside = rs.evaluate(data, discount=0.9, start=[[30.0]])
    assert not outside.reliable or outside.method == "bounds"


def test_a_method_can_be_asked_for():
    data, chances = chain(400, seed=2, cut=60)
    settings = {"discount": 0.9, "behavior": chances}
    found = rs.evaluate(data, target, method="importance sampling, weighted", **settings)
    assert found.method == "importance sampling, weighted"
    with pytest.raises(ValueError, match="`method` must be None or one of"):
        rs.evaluate(data, target, method="magic", **settings)
    with pytest.raises(ValueError, match="It is for the policy that made the log"):
        rs.evaluate(data, target, method="mean logged return", **settings)


# -- memory ----------------------------------------------------------------------------------------


def peak_of(n_episodes, *, cut):
    """Return the bytes that an evaluation on policy takes beside its log of 100 steps an episode."""
    rng = np.random.default_rng(0)
    states = np.cumsum(rng.normal(size=(n_episodes, 101, 4)), axis=1)
    rewards = states[:, :-1, 0] + rng.normal(size=(n_episodes, 100))
    ended = np.full(n_episodes, not cut)
    data = rs.Trajectories(states, rewards, terminated=ended, truncated=~ended)
    tracemalloc.start()
    found = rs.evaluate(data, discount=0.97)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.reliable
    return peak


@pytest.mark.parametrize("cut", slow_except([False], [False, True]))
def test_five_million_steps_would_fit_into_a_quarter_of_a_gibibyte(cut):
    """Twice the steps take less than their share of the budget more; batches have one size."""
    small, large = (peak_of(n, cut=cut) for n in (6000, 12_000))
    assert large - small < 2**28 / 5e6 * 600_000


@pytest.mark.slow
@pytest.mark.parametrize("cut", [False, True])
def test_five_million_steps_fit_into_a_quarter_of_a_gibibyte(cut):
    assert peak_of(50_000, cut=cut) < 2**28


def off_policy_peak(n_episodes):
    """Return the bytes that two policies with estimated behavior take beside their log of 100 steps each."""
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(n_episodes, 101)), rng.integers(0, 2, (n_episodes, 100))
    data = rs.Trajectories(states, rng.normal(size=(n_episodes, 100)), actions, terminated=False)
    tracemalloc.start()
    rs.compare(data, {"logged": None, "even": lambda s: np.full((len(s), 2), 0.5)}, discount=0.9)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.slow
def test_a_comparison_off_policy_takes_at_most_130_bytes_a_step():
    """From one million steps on; below, batches of one size make up most of it."""
    assert off_policy_peak(20_000) - off_policy_peak(10_000) < 130 * 1_000_000
