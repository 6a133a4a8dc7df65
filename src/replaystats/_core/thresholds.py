"""Judged numbers: every threshold that decides something, with its meaning and its source.

"Judged" says that no measurement behind the value is on record. A number that is computed from others here is
theirs.
"""

# -- how many are enough -------------------------------------------------------------------------------

# Effective number of units, rows, neighbours or steps of a coefficient below which nothing is averaged or
# concluded. Source: with 5, 7 and 10 clusters replay has 37, 1.1 and 1.05 times the plug-in's root mean
# squared error; for cells of a test, twice what Cochran (1954) asks for, because single cells are tested.
MIN_EFFECTIVE = 10
# Terms of an average or a variance that are many: first subsets, groups of units, points where noise is
# measured, functions of an automatic basis, indicators from which on systems are sparse. Derivation: the
# relative error of a variance is sqrt(2 / 100), 14 %; Student's quantile with 99 degrees of freedom is within
# 1.3 % of the normal one.
MANY = 100
# The same where each term is dear: groups of a delete-a-group jackknife, members of a pilot. Derivation:
# Student's quantile with 19 degrees of freedom is 1.07 times the normal one.
SEVERAL = 20
# Random divisions of data: folds of cross-validation and cross-fitting (Chernozhukov et al. 2018), blocks and
# neighbourhoods where two candidates are compared, draws of centres that are averaged. Twice as many folds up
# to `LARGE_DENSE_SYSTEM` rows, where a fit on 80 % of them is worse than one on 90 % (Hastie, Tibshirani and
# Friedman 2009, section 7.10): at 300 rows and 100 columns 90 % intervals cover .97 with 5 and .93 with 10.
FOLDS = 5
# Draws: permutations of a test, multipliers of a bootstrap, subsets where noise may never become small, cells
# of a grid of means. Derivation: the .95 point has a standard error of .005 in level, a p-value of .001
# survives Holm's correction for 50 tests.
DRAWS = 2000
# Subsets where a search for enough of them ends, as their linear noise is known. Judged, by run time.
MOST_RESAMPLES = 10_000

# -- what is small -------------------------------------------------------------------------------------

# Level of all checks of one call together, by Holm's correction: one false alarm in 20 logs. The lengths of
# two intervals are compared at this error, too, so that a choice does not depend on the level asked for.
CHECK_LEVEL = 0.05
# A share that changes no answer: of a variance, that Monte-Carlo noise may have (intervals are then at most
# .5 % too long); of a first guess, that sweeps may leave; of half-samples that cross singularity; of rows
# like those of the training that are flagged as unlike them. Derivation: the first.
NEGLIGIBLE = 0.01
# Of a squared error, the share that decides nothing: a gain that is not worth the computation, and what
# leave-one-out with learnt parameters flatters (Mallows 1973, Efron 1986): on noise a fit with d parameters
# is worse than the mean by d / n to 2 d / n of the variance. Judged.
IMMATERIAL = 0.03
# A share that is small beside the rest: of subsets that cross singularity, up to which intervals around
# medians cover (source: instruments of strength 16 and 64, half-samples); of visited states, those of
# largest leverage, at which a basis need not keep to the range of values, as a parabola through a bounded
# value does not at the outermost (source: diffusions, smooth values); of windows in which the action
# changes, up to which nothing is said: it costs less than the noise that higher orders add; of the future
# after cuts, where a model's value is no assumption of its own (5 % of it, wrong by two standard deviations
# of returns, is one standard error of 100 episodes).
SMALL_SHARE = 0.05
# What is small, where an order of magnitude decides: "goes to zero" at a given n; how far a question may be
# from a mean of values to count as one; how far answers may lie beyond all targets, in ranges of them; how
# much quieter than usual a place may be, as a residual may be 0 by accident; what landmarks may miss beside
# the penalty; subsets that cross singularity where a matrix is ill-conditioned as well; prediction points
# outside the data; a step of a search, in log units; a part of an interval that counts (half a standard
# error); shares of the future after cuts, up to which a bias bound takes the place of a test of the model,
# and after the longest episode, beyond which a model is not believed alone. Convention.
SMALL = 0.1
# More than this share is most of something: of the possible range, an interval is no answer; of a variance,
# Monte-Carlo noise allows no prediction; of a sum of returns, one episode carries it. Convention.
MAJORITY = 0.5
# Dependence on history that counts as none, in standard deviations of the outcome: 4 % of its variance. On
# glucose with four lags and 10 patients the history test rejected .10 to .17 of 40 logs with .1, .03 with .2.
MARKOV_NEGLIGIBLE = 0.2

# -- intervals and tests -------------------------------------------------------------------------------

# Replicates with a smaller tail index (Hill) have no variance. Derivation: the variance exists above 2.
HEAVY_TAIL = 2.0
# Standard errors between the moment matrix and a singular one below which normal intervals are rough: a first
# stage with F = 16 (Staiger and Stock 1997 ask for 10). Standard deviations at which residuals of tests are
# clipped, whose validity does not depend on it.
FAR = 4.0
# Of the skewness at which the cube root of Hall's transformation has an infinite slope, the share that is
# taken out: the longer side is then about 1.6 times Student's. Source: means of lognormal values, n = 20 to
# 500.
TAKEN_OUT = 0.8
# The error of a t interval's coverage is of the order of skewness / sqrt(n); beyond this it is not used.
# Judged.
SKEWED = 0.25
# Random combinations of functions outside the basis that the score test takes as instruments. Judged.
N_INSTRUMENTS = 5
# Number of units at which a confidence sequence is shortest beside the interval for one look: at most 1.77
# times as wide from 50 to 10^4 units (closed form of `inference.sequences.anytime_critical`).
TIGHTEST_AT = 200.0
# Largest share of the capital that a bet may lose (Waudby-Smith and Ramdas 2024, section 4: c = 1/2).
BETTING_CAP = 0.5
# A change is reported when the mixture of likelihood ratios exceeds this share of 1 / false_alarm. Ville's
# inequality needs 1; measured with .3 (3000 runs of 1000 units, whatever the law of the values): false
# alarms in .081, .042 and .007 of the runs at false_alarm .1, .05 and .01 (standard error .005 to .002).
CHANGE_SHARE = 0.3

# -- candidates ----------------------------------------------------------------------------------------

# Penalties to choose from, relative to a moment matrix with columns scaled to one size: half decades from one
# without effect to one that leaves nothing but a constant.
PENALTIES = tuple(10.0 ** (j / 2) for j in range(-14, 7))
# Subset sizes that are tried, as shares of n.
SHARES = (0.3, 0.5, 0.7)
# Lepski's factors for well-posed and ill-posed problems, and the condition number of the latter. Source: the
# settings of docs/explanation/regularisation.md.
WELL_POSED_KAPPA, ILL_POSED_KAPPA, CONDITION_LIMIT = 0.5, 1.5, 1e3
# Highest order of an automatic basis. Judged.
HIGHEST_ORDER = 8
# Lepski's factor for nested bases: one unit of noise. Judged.
NESTED_KAPPA = 1.0
# Difference of log likelihoods from which evidence for another kernel is positive (Kass and Raftery 1995).
EVIDENCE = 1.0
# Leaves and trees to compare: small and large ones, at six times the cost. Source: Friedman's first function,
# 10^5 rows of 20 columns: error .112 with 4 trees of 400 rows, .119 with 8 of 200 in the same time to fit and
# twice that to predict; .105, .102 and .087 with 4 of 500, 2 of 1000 and 4 of 1000 (noise 1).
LEAVES = ((400, 4), (1000, 4))
# Logged steps that are averaged where an action was left out: few, because what happens in control is nearly
# certain. Judged.
N_NEIGHBORS = 4
# `basis.Squashed`: one standard deviation goes to tanh(1 / 1.5) = .58, so that bulk and tails both keep
# room on (-1, 1). Judged.
SPREAD = 1.5

# -- work ----------------------------------------------------------------------------------------------

# Rows used at most, judged by run time: where work grows with their third power and is done many times (rows
# that decide about a penalty, subsets of kernel ridge, landmarks: .01 s each); a few times (.05 s); once
# (candidates of kernel ridge: their errors are paired, which cancels most of the noise).
DENSE_SYSTEM = 500
LARGE_DENSE_SYSTEM = 2 * DENSE_SYSTEM
COMPARED_ROWS = 4 * DENSE_SYSTEM
# Rows used at most where work or memory grows with their square, or trees are grown (states that are
# remembered, regressions of tests, members of fitted Q evaluation); and where it is proportional to them (a
# quantile of so many residuals has a standard error of .2 % in level at 90 %).
SQUARE_ROWS, SAMPLED_ROWS = 5000, 20_000
# Multiplications, or numbers held, that nobody notices (.01 s, 80 MB), beyond which groups of units are drawn
# in place of units, and fewer subsets; and those (a second or two) beyond which fewer groups judge a penalty,
# and units are thinned for second-order terms. Judged.
CHEAP_WORK, MOST_WORK = 10**7, 10**9
# Sweeps to a fixed point, which end before where the discount lets them.
ITERATIONS = 5000
# Estimated seconds of work of one call beyond which it is refused (a day), and is announced (a minute).
LONGEST_WORK, ANNOUNCED_WORK = 86_400.0, 60.0
