"""Reference implementations of tests of assumptions."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations


def holm(p_values):
    """Adjusted p-values by the definition: reject in order while p <= level / (number left)."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for place, i in enumerate(order):
        largest = max(largest, min(1.0, p_values[i] * (len(p_values) - place)))
        adjusted[i] = largest
    return adjusted


def conditional_information(given, outcome, label):
    """Mutual information of outcome and label given a third label, in nats, from counts."""
    n = len(given)
    triple, x = Counter(zip(given, outcome, label, strict=True)), Counter(given)
    xy, xz = Counter(zip(given, outcome, strict=True)), Counter(zip(given, label, strict=True))
    terms = ((c, c * x[g] / (xy[g, o] * xz[g, z])) for (g, o, z), c in triple.items())
    return sum(c / n * math.log(ratio) for c, ratio in terms)


def exact_permutation_p_value(given, outcome, label):
    """Share of all permutations of the label within `given` with at least the observed information."""
    groups = [[i for i, g in enumerate(given) if g == value] for value in sorted(set(given))]
    seen, reached, total = conditional_information(given, outcome, label), 0, 0

    def each(rest, current):
        nonlocal reached, total
        if not rest:
            total += 1
            reached += conditional_information(given, outcome, current) >= seen - 1e-12
            return
        for order in permutations(rest[0]):
            moved = list(current)
            for place, source in zip(rest[0], order, strict=True):
                moved[place] = label[source]
            each(rest[1:], moved)

    each(groups, list(label))
    return reached / total
