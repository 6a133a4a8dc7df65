"""Judged numbers: every threshold that decides something, with its meaning and its source."""

# A functional is degenerate (its first-order variance is 0) where the estimate of that variance is at most
# this many times its own jackknife bias: the .95 point of its law then, chi-square(1).
DEGENERATE_RATIO = 3.84
# Groups of the delete-a-group jackknife of the second-order constant (19 degrees of freedom).
SECOND_ORDER_GROUPS = 20
# Largest n q^3 of one evaluation of the second-order constant (under a second); units are thinned to keep it.
SECOND_ORDER_WORK = 2e8
