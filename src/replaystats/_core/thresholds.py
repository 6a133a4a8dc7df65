"""Judged numbers: every threshold that decides something, with its meaning and its source."""

# -- subsets and their number -------------------------------------------------------------------------
# "Judged" says that no measurement behind the value is on record.

# Fewer observations per unknown than this made single subsets useless. Source: LSTD, q = 9.
OBSERVATIONS_PER_UNKNOWN = 7
# Groups of units that are drawn, or left out to judge a penalty: single units up to this many. Derivation:
# Student's quantile with 99 degrees of freedom is within 1.3 % of the normal one. They are drawn where a
# fit and its interval from single units would take longer than this many seconds. Judged.
GROUPS, NOTICED_SECONDS = 100, 0.01
# Shares of n that are tried in turn where half-samples cross singularity. Judged.
SIZE_SHARES = (0.5, 0.7, 0.9)
# Subsets with which a search for enough of them begins, of single units and of groups. Derivation: the
# relative error of a variance from B subsets is about sqrt(2 / B), 14 % and 28 %. So many members are also
# needed to estimate the index of their tail.
FIRST_RESAMPLES, GROUPED_PILOT = 100, 25
# The first estimate of Monte-Carlo noise is itself noisy: the number grows by at most this factor. Judged.
GROWTH = 4
# Largest relative error of a point's own standard error, before pooling over points halves it. Source:
# unpruned trees, n = 300: 800 members.
ERROR_NOISE = 0.25
# Where a search for enough subsets ends: with the control variate, without it, and for sparse systems, which
# are solved one by one. Judged, by run time.
MOST_RESAMPLES, MOST_UNCONTROLLED, MOST_SPARSE = 10_000, 1000, 200
# From this many indicators on, systems are sparse: a dense solve of q unknowns costs q^3. Judged.
SPARSE_FROM = 100
# Policy iteration stops when no coefficient moves by more than this share of the largest: greedy actions of
# equal value may change forever. Derivation: half the digits of a double.
SAME_COEFFICIENTS = 1e-8

# -- automatic basis ----------------------------------------------------------------------------------

# Lepski's factor for nested bases, one unit of noise; the 1.5 of `Lepski` is for ill-posed problems. Judged.
NESTED_KAPPA = 1.0
# Highest order and largest number of functions of an automatic basis, transitions for each function, and
# states at which candidates are compared. Judged.
HIGHEST_ORDER, MOST_FUNCTIONS, TRANSITIONS_EACH, MOST_TARGETS = 8, 64, 20, 200

# -- intervals ----------------------------------------------------------------------------------------

# Effective number of units, rows or steps below which nothing is averaged or concluded. Source: with 5, 7
# and 10 clusters replay has 37, 1.1 and 1.05 times the plug-in's root mean squared error.
MIN_EFFECTIVE = 10
# Replicates with a smaller tail index (Hill) have no variance. Derivation: the variance exists above 2.
HEAVY_TAIL = 2.0
# A share that is small beside the rest: of subsets that cross singularity, up to which intervals around
# medians cover (source: instruments of strength 16 and 64, half-samples); of visited states, those of
# largest leverage, at which a basis need not keep to the range of values, as a parabola through a bounded
# value does not at the outermost (source: diffusions, smooth values); of windows in which the action
# changes, up to which nothing is said: it costs less than the noise that higher orders add; of a policy's
# future after cuts, beyond which a model's value there is an assumption of its own; by which a doubted model
# is taken to be wrong, as a share of the range; of a standard deviation, by which neighbours hold a path back
# at every step where it would leave the log; of a policy's chance of an action, with which the logging policy
# must take it so that chance may have left it out.
SMALL_SHARE = 0.05
# What is small, where an order of magnitude decides: "goes to zero" at a given n; how far a question may be
# from a mean of values to count as one; how far answers may lie beyond all targets, in ranges of them; how
# much quieter than usual a place may be, as a residual may be 0 by accident; what landmarks may miss beside
# the penalty; subsets that cross singularity where a matrix is ill-conditioned as well; a part of an interval
# that counts (half a standard error); a share of the future after cuts, up to which a bias bound takes the
# place of a test of the model; and a share of the policy's future after the longest episode, beyond
# which a model is not believed alone. Convention.
SMALL = 0.1
# Standard errors between the moment matrix and a singular one below which normal intervals are rough: a first
# stage with F = 16 (Staiger and Stock 1997 ask for 10).
WEAK_SEPARATION = 4.0
# Of the skewness at which the cube root of Hall's transformation has an infinite slope, the share that is
# taken out: the longer side is then about 1.6 times Student's. Source: means of lognormal values, n = 20 to
# 500.
TAKEN_OUT = 0.8
# Standard errors beyond which the correlation of a series at some lag is one (Politis and White 2004), and
# effective units below which ratios of policies say nothing.
CORRELATED, FEWEST_UNITS = 2.0, 2.0

# Estimated seconds of work of one call beyond which it is refused (a day), and is announced (a minute).
LONGEST_WORK, ANNOUNCED_WORK = 86_400.0, 60.0
# Largest n q^3 of one evaluation of the second-order constant (under a second); units are thinned to keep it.
SECOND_ORDER_WORK = 2e8
# -- tests of assumptions (ope) ------------------------------------------------------------------------
# Steps that a test of the Markov property uses at most; drawn at random from longer logs.
MARKOV_ROWS = 10_000
# The same with real states, where regressions are fitted.
MARKOV_REAL_ROWS = 4_000
# Permutations of a test at most: a p-value of .001 survives Holm's correction for 50 tests.
MARKOV_PERMUTATIONS = 999
# Dependence on history that counts as none, in standard deviations of the outcome: 4 % of its variance. On
# glucose with four lags and 10 patients the history test rejected .10 to .17 of 40 logs with .1, .03 with .2.
MARKOV_NEGLIGIBLE = 0.2


# Regression: learnt parameters d over rows n up to which leave-one-out with the parameters of all rows is
# used, its squared errors times 1 + 2 d / n (Mallows 1973, Efron 1986). Derivation: on noise the fit is then
# worse than the mean by d / n to 2 d / n of the variance, .05 or so, and no choice between widths is needed.
LEARNT_SHARE = 0.03
# Folds of cross-validation and of cross-fitting (five are customary: Chernozhukov et al. 2018): 10 up to so
# many rows, then 5, where a fit on 80 % of the rows is hardly worse than one on 90 % (Hastie, Tibshirani and
# Friedman 2009, section 7.10). At 300 rows and 100 columns 5 folds made 90 % intervals cover .97, 10 folds
# .93.
FOLDS, FOLDS_OF_FEW, FEW_ROWS = 5, 10, 1200
# Share of false alarms where something of the data is flagged. Rows unlike the training rows: half of 1 % for
# each of two measures, so that at most one in a hundred rows like them is flagged. Episodes that seem to have
# been cut off by a time limit.
OUTSIDE_LEVEL = 0.005
# Whole numbers that are stored as floats are labels of actions up to this, quantities beyond it. Judged.
MOST_LABELS = 1000
# Difference of log likelihoods from which evidence for another kernel is positive (Kass and Raftery 1995).
EVIDENCE = 1.0
# Two steps of a search for widths that gain less of the log likelihood are its last, and so is the one after
# so many. Source: ten tables of 60 to 300 rows, 4 draws each: half the time of exact searches, scores within
# .01, coverage within .01.
NO_GAIN, SEARCH_STEPS = EVIDENCE / 5, 40
# From `FEW_ROWS` on: rows of a search, steps of the replayed choice of widths, their size in log units (down
# to a tenth of it), rows of random blocks, and blocks that decide between two starts. Judged, by run time.
SEARCHED_ROWS, STEPS, STEP_SIZE, RANDOM_ROWS, START_BLOCKS = 700, 25, 0.1, 300, 4
# What a step keeps of the mean slope and of the mean squared slope before it. Source: Adam (Kingma and Ba
# 2015); the squares forget faster than theirs, as there are few steps.
STEP_MEMORY = (0.9, 0.98)
# Share of the rows that decides whether a column has long tails. Judged.
FAR_SHARE = 0.01
# Functions that measure a smoothing bias, and the cosines each is made of. Derivation: the relative errors of
# a variance and of a kernel value are about sqrt(2 / 64) at a point, less over points, and 1 / sqrt(400).
PRIOR_DRAWS, PRIOR_WAVES = 64, 400
# Rows whose residuals make intervals and scores, at most. Derivation: the quantile of so many has a standard
# error of .3 % in level at 90 %, and less beyond.
CALIBRATION_ROWS = 10_000
# -- screening of state columns (ope) ------------------------------------------------------------------
# Steps used at most; every test fits regressions.
SCREENING_ROWS = 2_000

# -- fitted Q evaluation (ope) -------------------------------------------------------------------------
# Steps of one member at most, sweeps over its leaves, and fits of another regressor: seconds in all.
FITTED_Q_ROWS, FITTED_Q_SWEEPS, FITTED_Q_REFITS = 4_000, 500, 60
# Share of the first guess that may be left after the last sweep.
FITTED_Q_LEFT = 0.02

# -- value over a horizon (ope) ------------------------------------------------------------------------
# Gaussian bumps of a value model at most; fewer with fewer than ten steps of an action for each.
HORIZON_BUMPS = 60

# -- estimated logging policy (ope) --------------------------------------------------------------------
# Steps that a model of the logging policy is fitted to at most (seconds for ten actions).
BEHAVIOR_ROWS = 20_000
# Boosted trees at most, over all actions: the default of scikit-learn for two.
BEHAVIOR_TREES = 100
# Number of units at which a confidence sequence is shortest beside the interval for one look: at most 1.77
# times as wide from 50 to 10^4 units (closed form of `inference.sequences.anytime_critical`).
TIGHTEST_AT = 200.0
# Largest share of the capital that a bet may lose (Waudby-Smith and Ramdas 2024, section 4: c = 1/2), and
# candidate means on the grid, a cell of which is added to both ends of the interval.
BETTING_CAP = 0.5
BETTING_GRID = 1000
# A change is reported when the mixture of likelihood ratios exceeds this share of 1 / false_alarm. Ville's
# inequality needs 1; measured with .3 (3000 runs of 1000 units, whatever the law of the values): false
# alarms in .081, .042 and .007 of the runs at false_alarm .1, .05 and .01 (standard error .005 to .002).
CHANGE_SHARE = 0.3
# A predicted mean squared error within 3 % of the plug-in's is no gain worth the computation.
WORTHWHILE = 0.97
# Penalties of a ridge to choose from, relative to the moment matrix with columns scaled to one size: half
# decades from one without effect to one that leaves little but a constant.
RIDGE_PENALTIES = tuple(10.0 ** (j / 2) for j in range(-14, 4))
# Subset sizes at which replay is judged, as shares of n.
RISK_SHARES = (0.3, 0.5, 0.7)

# -- evaluation of policies (ope) ------------------------------------------------------------------------
# Level of all checks of one evaluation together, by Holm's correction: one false alarm in 20 logs. The
# lengths of two intervals are compared at this error, too, so that a choice does not depend on the level
# asked for.
CHECK_LEVEL = 0.05
# Share of the possible range beyond which an interval is no answer: it holds values of both halves.
UNINFORMATIVE = 0.5
# Share of a value that one episode may carry before it is said.
ONE_EPISODE = 1.0 / 3.0
# -- numbers of bounds, checks and pilots (inference, estimators) -----------------------------------
# Points where values are known to lie in their range, and of a pilot of distances. Judged, by run time.
MOST_BOUNDED = 400
# `basis.Squashed`: one standard deviation goes to tanh(1 / 1.5) = .58, so that bulk and tails both keep
# room on (-1, 1). Judged.
SPREAD = 1.5
# Unknowns of a dense system that is solved many times (rows that decide about a penalty, subsets of kernel
# ridge, landmarks: .01 s each), and of one that is solved a few times (a fit of the noise, landmarks of a
# device: .05 s), and states whose distances are all measured. Judged, by run time.
DENSE_SYSTEM, LARGE_DENSE_SYSTEM = 500, 1000
# Share of prediction points outside the data beyond which no estimator is advised. Judged.
TOO_MANY_OUTSIDE = 0.2
# Monte-Carlo share of a variance beyond which nothing is predicted from it. Judged.
TOO_NOISY = 0.5
#  Largest share of a variance that Monte-Carlo noise may have: intervals are then at most .5 % too long.
MONTE_CARLO_TARGET = 0.01
# Visited states, or rows of a table, that a fitted object remembers, and steps of the kernel Bellman loss,
# whose work is their square. Judged, by memory and run time.
MOST_OBSERVED = 5000
# Multiplications (some seconds) beyond which a cheaper way is taken: groups in place of single units are left
# out, fewer groups judge a penalty, and bounds of a bias have the same weights for all questions. Judged.
MOST_WORK = 2e9
#  Groups of a delete-a-group jackknife, and members where each is dear: Student's quantile with 19 degrees of
# freedom is 1.07 times the normal one.
JACKKNIFE_GROUPS = 20
#  Smallest degrees of freedom of a pooled variance: the fourth moment of a Student variable exists above 4.
FEWEST_DEGREES = 5.0
# Points at which a variance is measured before it is pooled: enough for an average. Judged, by run time.
POOLED_POINTS = 25
#  Draws of the multiplier bootstrap: the .95 point then has a standard error of .005 in level.
N_MULTIPLIERS = 2000
# Copies of rows are worth a warning if they are more than `SMALL_SHARE` of all rows, at most `SMALL` of the
# rows with equal features have other targets, and values of the columns could make more than n to this power
# different rows. Judged.
FEW_VALUES = 1.5
# Automatic numbers of subsets of a regressor: the most subsets, the most rows of all of them together, and
# points at which Monte-Carlo noise is measured. Judged, by run time.
AUTO_CAP, AUTO_ROWS, AUTO_POINTS = 2000, 10**7, 100
# Automatic subset sizes of a regressor: shares of n to compare, and members to compare them with. Judged.
CANDIDATE_SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2)
#  Members to compare them with. Judged.
PILOT_MODELS = 16

# -- the recommended method (tuning) -------------------------------------------------------------------
# Lepski's factors for well-posed and ill-posed problems, and what they are: no more half-samples than this
# share cross singularity, and more than `SMALL` with a condition number above the last. Source: the settings
# of docs/explanation/regularisation.md.
WELL_POSED_KAPPA, ILL_POSED_KAPPA = 0.5, 1.5
SAFE_CROSSING, CONDITION_LIMIT = 0.01, 1e3

# -- kernel ridge (tuning) -----------------------------------------------------------------------------
# Rows at which candidates are compared: their errors are paired, which cancels most of the noise. Judged.
COMPARED_ROWS = 2000
# Members of a pilot, and the smallest subsets. Judged.
PILOT_MEMBERS, SMALLEST_SUBSET = 32, 16
# Blocks of rows that a fit on features replays: more of them only cost. Judged.
MAX_BLOCKS = 200
# Numbers in the systems of all replays, up to which there are `MOST_SPARSE`. Judged, by memory.
REPLAYED_NUMBERS = 8_000_000
# Leaves and trees to compare: many small fits, or fewer large ones, at three times the cost; and the
# neighbourhoods of 1000 rows where this is done on the host. Judged.
LEAVES = ((200, 8), (1000, 4))
PILOT_NEIGHBOURHOODS = 3
