"""Settings of a session: kept by the thread, restored by the context, handed on to workers."""

from __future__ import annotations

import threading

import joblib
import numpy as np
import pytest

import replaystats as rs
from replaystats._core.config import (
    chosen_n_jobs,
    memory_budget,
    run_with,
)
from replaystats.engine import JoblibExecutor
from replaystats.engine.executors import SerialExecutor, make_executor
from support.workers import budget_of

SMALL = 2**21


@pytest.fixture(autouse=True)
def as_before():
    before = rs.get_config()
    yield
    assert rs.get_config() == before, "a test left its settings behind"


def test_settings_of_a_new_session():
    assert rs.get_config() == {
        "memory_budget": 2**30,
        "device_memory_budget": 2**32,
        "n_jobs": None,
        "progress": True,
    }


def test_what_is_returned_is_a_copy():
    rs.get_config()["memory_budget"] = 1
    assert memory_budget() == 2**30


def test_contexts_nest_and_restore():
    with rs.config_context(memory_budget=SMALL):
        with rs.config_context(n_jobs=2):
            assert (memory_budget(), chosen_n_jobs(None)) == (SMALL, 2)
            with rs.config_context(n_jobs="default", memory_budget=2 * SMALL):
                assert (memory_budget(), chosen_n_jobs(None)) == (2 * SMALL, None)
        assert (memory_budget(), chosen_n_jobs(None)) == (SMALL, None)


def test_an_error_inside_restores_too():
    with pytest.raises(RuntimeError), rs.config_context(progress=False):
        raise RuntimeError
    assert rs.get_config()["progress"] is True


def test_set_config_lasts_until_the_context_around_it_ends():
    with rs.config_context():
        rs.set_config(memory_budget=SMALL)
        assert memory_budget() == SMALL
    assert memory_budget() == 2**30


@pytest.mark.parametrize(
    ("options", "kind", "sentence"),
    [
        (
            {"memory_budget": 10},
            ValueError,
            "`memory_budget` must be an int >= 1048576; got 10. It is counted",
        ),
        ({"memory_budget": 1e9}, TypeError, "`memory_budget` must be an int >= 1048576; got 1000000000.0"),
        ({"device_memory_budget": True}, TypeError, "`device_memory_budget` must be an int"),
        ({"n_jobs": 0}, ValueError, "`n_jobs` must be None or an int from 1 to 10000; got 0"),
        ({"n_jobs": "all"}, ValueError, "`n_jobs` must be None or an int from 1 to 10000; got 'all'"),
        ({"n_jobs": 1.5}, ValueError, "`n_jobs` must be"),
        ({"progress": 1}, TypeError, "`progress` must be True or False; got 1"),
    ],
)
def test_wrong_settings_change_nothing(options, kind, sentence):
    before = rs.get_config()
    with pytest.raises(kind) as caught:
        rs.set_config(**{"memory_budget": SMALL, **options})
    assert sentence in str(caught.value)
    assert rs.get_config() == before


def test_another_thread_has_its_own_settings():
    seen = []

    def look():
        seen.append(memory_budget())
        rs.set_config(memory_budget=4 * SMALL)
        seen.append(memory_budget())

    with rs.config_context(memory_budget=SMALL):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert memory_budget() == SMALL
    assert seen == [2**30, 4 * SMALL]


@pytest.mark.parametrize("executor", [SerialExecutor(), JoblibExecutor(2)], ids=["serial", "threads"])
@pytest.mark.parametrize("how", ["map", "stream"])
def test_workers_have_the_settings_of_whoever_asks(executor, how):
    with rs.config_context(memory_budget=SMALL):
        assert list(getattr(executor, how)(budget_of, range(5))) == [SMALL] * 5
    assert list(getattr(executor, how)(budget_of, range(5))) == [2**30] * 5


def test_worker_processes_have_them_too():
    with joblib.parallel_config("loky", n_jobs=2), rs.config_context(memory_budget=SMALL):
        assert JoblibExecutor(2).map(budget_of, range(3)) == [SMALL] * 3


def test_a_worker_thread_is_left_as_it_was():
    run_with({**rs.get_config(), "memory_budget": SMALL}, budget_of, 0)
    assert memory_budget() == 2**30


def test_workers_are_as_many_as_the_setting_says_where_nothing_is_said():
    with rs.config_context(n_jobs=2):
        assert make_executor(None).n_workers == 2
        assert make_executor(1).n_workers == 1
    assert make_executor(None).n_workers == 1


def test_the_answer_does_not_depend_on_the_budget(rng):
    moments = rs.Moments(rng.normal(size=(3000, 2, 2)) + 3 * np.eye(2), rng.normal(size=(3000, 2)))
    plan = rs.make_plan(3000, subsample_size=0.5, n_resamples=300, random_state=0)
    whole = rs.replicate(moments, plan).theta
    with rs.config_context(memory_budget=2**20, n_jobs=2):
        np.testing.assert_allclose(rs.replicate(moments, plan).theta, whole, rtol=1e-12)


def test_no_bar_is_drawn_where_progress_is_off(monkeypatch):
    import io
    import sys

    from replaystats._core.config import track

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    with rs.config_context(progress=False):
        assert list(track(range(3), total=3, description="x")) == [0, 1, 2]
    assert sys.stderr.getvalue() == ""
