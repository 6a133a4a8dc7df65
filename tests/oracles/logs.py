"""Logs read row by row, and buffers kept as plain lists; nothing of the package is used."""

from __future__ import annotations

import itertools

import numpy as np


def trajectories_of_rows(rows, final_states, unit):
    """Sort rows, cut them where steps of `unit` are missing, and close every run.

    A row is a dict with episode, step, state, reward, action and the flags terminated and truncated of its
    episode. Returns dicts of lists, in the order of episodes and steps.
    """
    found = []
    for episode in sorted({row["episode"] for row in rows}):
        own = sorted((row for row in rows if row["episode"] == episode), key=lambda row: row["step"])
        runs = [[own[0]]]
        for before, row in itertools.pairwise(own):
            if row["step"] - before["step"] > unit * 1.5:
                runs.append([])
            runs[-1].append(row)
        for i, run in enumerate(runs):
            whole = i == len(runs) - 1
            terminated = whole and run[-1]["terminated"]
            truncated = run[-1]["truncated"] if whole else True
            states = [row["state"] for row in run]
            if final_states == "repeat" and terminated:
                states.append(states[-1])
            if final_states == "drop":
                terminated, truncated = False, truncated or terminated
            if len(states) < 2:
                continue
            steps = run[: len(states) - 1]
            found.append({
                "states": states,
                "rewards": [row["reward"] for row in steps],
                "actions": [row["action"] for row in steps],
                "terminated": terminated,
                "truncated": truncated,
                "parent": episode,
            })  # fmt: skip
    return found


def vector_loop(lengths, ends, n_steps, mode):
    """Copies that count up to the lengths of their episodes, in a loop of `n_steps` steps.

    Episode j of copy i visits the states 100 i + 10 j + (0, 1, ..., L), terminates or is truncated, and is
    begun anew in the way of `mode`. Returns what the loop sees, and the episodes as they were.
    """
    n = len(lengths)
    seen = np.zeros((n_steps + 1, n))
    rewards, actions = np.zeros((n_steps, n)), np.zeros((n_steps, n), int)
    terminated, truncated = np.zeros((n_steps, n), bool), np.zeros((n_steps, n), bool)
    final = np.full((n_steps, n), np.nan)
    episodes = []
    for i in range(n):
        j, t, resetting = 0, 0, False
        state = 100.0 * i
        seen[0, i] = state
        now = {"states": [state], "rewards": [], "actions": [], "terminated": False, "truncated": False}
        for step in range(n_steps):
            actions[step, i] = (step + i) % 3
            if resetting:  # this step only resets: what it pays and does means nothing
                resetting = False
                rewards[step, i] = -99.0
                seen[step + 1, i] = state
                continue
            t += 1
            state = 100.0 * i + 10 * j + t
            rewards[step, i] = state / 7
            now["states"].append(state)
            now["rewards"].append(state / 7)
            now["actions"].append(int(actions[step, i]))
            seen[step + 1, i] = state
            if t == lengths[i][j]:
                kind = terminated if ends[i][j] else truncated
                kind[step, i] = True
                now["terminated"], now["truncated"] = bool(ends[i][j]), not ends[i][j]
                episodes.append((i, now))
                final[step, i] = state
                j, t = j + 1, 0
                state = 100.0 * i + 10 * j
                now = {"states": [state], "rewards": [], "actions": []}
                now |= {"terminated": False, "truncated": False}
                if mode == "next_step":
                    resetting = True
                else:
                    seen[step + 1, i] = state
        if len(now["states"]) > 1:
            episodes.append((i, now))
    episodes.sort(key=lambda pair: pair[0])
    return seen, rewards, actions, terminated, truncated, final, [episode for _, episode in episodes]


def kept_in_buffer(n, capacity, eviction, uniform):
    """Numbers of the observations that are held after n came, by slot; `uniform()` is the next random number.

    A reservoir keeps observation number m (counted from 0) with probability capacity / (m + 1), in any slot.
    """
    slots = []
    for number in range(n):
        if len(slots) < capacity:
            slots.append(number)
        elif eviction == "fifo":
            slots[number % capacity] = number
        else:
            place = int(uniform() * (number + 1))
            if place < capacity:
                slots[place] = number
    return slots
