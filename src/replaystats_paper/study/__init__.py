"""Studies of your own: any source of data, any estimators, a grid of n, B and k, in the manner of the paper.

`definition` says what is run (from Python or a TOML file), `sources` where data come from, `run` runs,
resumes and shows it. The public doors are `replaystats.study` and ``replaystats study``.
"""
