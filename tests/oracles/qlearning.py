"""A slow, obvious reference of Q-learning with replay: one run, plain Python lists, one transition at a time.

It imports nothing from the package. It is handed the same uniforms as the fast learner, one row per
environment step: [explore?, order of actions, k draws of minibatch 1, k draws of minibatch 2, ...].
"""

from __future__ import annotations

import itertools
from collections import deque

ORDERS = list(itertools.permutations(range(4)))
STEPS = [(-1, 0), (0, 1), (1, 0), (0, -1)]


class Maze:
    """Cells marked # cannot be entered; everything is looked up in the picture, step by step."""

    def __init__(self, picture):
        self.picture = picture
        self.width = len(picture[0])
        cells = "".join(picture)
        self.start, self.goal = cells.index("S"), cells.index("G")
        self.n_states = len(cells)

    def move(self, state, action):
        row, column = divmod(state, self.width)
        row, column = row + STEPS[action][0], column + STEPS[action][1]
        inside = 0 <= row < len(self.picture) and 0 <= column < self.width
        return row * self.width + column if inside and self.picture[row][column] != "#" else state

    def distances(self):
        """Steps to the goal from every cell that can reach it, breadth first from the goal."""
        found, queue = {self.goal: 0}, deque([self.goal])
        while queue:
            there = queue.popleft()
            for state in range(self.n_states):
                if self.picture[state // self.width][state % self.width] == "#" or state in found:
                    continue
                if any(self.move(state, action) == there for action in range(4)):
                    found[state] = found[there] + 1
                    queue.append(state)
        return found


class Reference:
    """Q-learning with replay, written down as the textbook says it."""

    def __init__(self, maze, *, capacity, minibatch, ratio, timeout, step_size, explore):
        self.maze, self.k, self.ratio = maze, minibatch, ratio
        self.timeout, self.alpha, self.epsilon = timeout, step_size, explore
        self.values = [[0.0] * 4 for _ in range(maze.n_states)]
        # Each memory entry: [state, action, reward, next state]
        self.memory, self.capacity, self.oldest = [], capacity, 0
        self.state, self.age, self.returns = maze.start, 0, []

    def q(self, state, action):
        if state == self.maze.goal:
            return 0.0
        return self.values[state][action]

    def step(self, uniforms):
        order = ORDERS[int(uniforms[1] * 24)]
        action = order[0] if uniforms[0] < self.epsilon else max(order, key=lambda a: self.q(self.state, a))
        after = self.maze.move(self.state, action)
        self.age += 1
        ended = after == self.maze.goal or self.age == self.timeout
        self.store([self.state, action, -1.0, after])
        for b in range(self.ratio):
            self.replay(uniforms[2 + b * self.k : 2 + (b + 1) * self.k])
        self.state = after
        if ended:
            self.returns.append(-self.age)
            self.state, self.age = self.maze.start, 0

    def store(self, entry):
        if len(self.memory) < self.capacity:
            self.memory.append(entry)
        else:
            self.memory[self.oldest] = entry
            self.oldest = (self.oldest + 1) % self.capacity

    def target(self, place):
        """The reward, then the best value of the state that it led to."""
        _, _, reward, after = self.memory[place]
        return reward + max(self.q(after, action) for action in range(4))

    def replay(self, uniforms):
        places = [int(u * len(self.memory)) for u in uniforms]
        errors = [self.target(p) - self.q(self.memory[p][0], self.memory[p][1]) for p in places]
        pairs = [self.memory[place][:2] for place in places]
        for (state, action), error in zip(pairs, errors, strict=True):
            step_size = min(self.alpha, 1 / pairs.count([state, action]))  # all copies: just to the target
            self.values[state][action] += step_size * error
