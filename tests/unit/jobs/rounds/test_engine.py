"""What the engine does with the news of a history: rounds that are planned, folded, committed,
noted as done, and made again.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.configuration.config import Config
from jobs.rounds.engine import Engine, _is_final
from jobs.rounds.history import News, Output
from jobs.rounds.plan import Step
from jobs.rounds.stage import FoldError
from jobs.rules.arrow import rows_of
from schemas.internal import LAG_STATES, ROUNDS, STATE
from schemas.lake import LakeError
from tests.support.counting import JOB, NOTHING, Counting
from tests.support.kills import KilledError, killed_after, killed_at
from tests.support.memory_lake import MemoryLake, without_spark

NAMED = [("a", "g"), ("b", "g"), ("a", "h"), ("a", "g"), ("b", "h"), ("a", "g")]
MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def _in_memory() -> Iterator[None]:
    with without_spark():
        yield


@pytest.fixture
def lake() -> MemoryLake:
    return MemoryLake()


def engine_of(lake: MemoryLake, history: Counting) -> Engine:
    return Engine(None, Config(lake, "", {}), history)


def counts(lake: MemoryLake) -> Counter[tuple[str, str]]:
    rows = rows_of(lake.rows(LAG_STATES))
    found = {(row["cluster"], row["group_id"]): int(row["memory"]) for row in rows}
    assert len(found) == len(rows)
    return Counter(found)


def planned(lake: MemoryLake) -> list[int]:
    return [row["round"] for row in rows_of(lake.rows(ROUNDS)) if row["step"] == "planned"]


def caught_up(engine: Engine) -> int:
    """Make rounds until nothing is left; how many."""
    made = 1
    while engine.round(now(0)):
        made += 1
    return made


def now(minutes: int) -> datetime:
    return datetime.now(UTC) + minutes * MINUTE


@pytest.mark.parametrize("most", [1, 2, 5, 100])
def test_rounds_take_what_is_new_and_change_live_rows(lake: MemoryLake, most: int) -> None:
    history = Counting(NAMED, most)
    engine = engine_of(lake, history)
    assert caught_up(engine) == -(-len(NAMED) // most), "none is made for nothing"
    assert counts(lake) == Counter(NAMED)
    assert len(planned(lake)) == history.finished == -(-len(NAMED) // most)
    assert not engine.round(now(0))
    assert not engine_of(lake, Counting(NAMED)).round(now(0)), "another run finds nothing new"


def test_the_state_says_which_round_it_is_of(lake: MemoryLake) -> None:
    engine_of(lake, Counting(NAMED)).round(now(0))
    (row,) = rows_of(lake.rows(STATE))
    assert [row["round"]] == planned(lake)


@pytest.mark.parametrize("step", ["plan", "commit", "done"])
@pytest.mark.parametrize("before", [True, False])
def test_a_round_that_was_killed_is_finished_by_the_next_run(
    lake: MemoryLake, step: str, before: bool
) -> None:
    engine = engine_of(lake, Counting(NAMED, 3))
    engine.round(now(0))
    kill = killed_after(0 if before else 1) if step == "commit" else killed_at(step, before=before)
    with kill, suppress(KilledError):
        engine.round(now(0))
    is_planned = (step, before) != ("plan", True)
    history = Counting(NAMED, 3)
    engine = engine_of(lake, history)
    assert counts(lake) == Counter(NAMED if is_planned else NAMED[:3])
    caught_up(engine)
    assert counts(lake) == Counter(NAMED)


def test_news_that_say_nothing_are_noted_after_a_while(lake: MemoryLake) -> None:
    named = [*NAMED[:2], ("a", NOTHING)]
    engine = engine_of(lake, Counting(named, 2))
    assert engine.round(now(0))
    assert not engine.round(now(1))
    assert len(planned(lake)) == 1, "nothing was written"
    named.append(("a", NOTHING))
    assert not engine.round(now(2)), "they are taken all the same"
    assert not engine.round(now(5)), "nothing is new"
    named.append(("b", NOTHING))
    assert not engine.round(now(4))
    assert len(planned(lake)) == 2
    (*_, last) = rows_of(lake.rows(STATE))
    assert last["memory"] == '{"until":5}'


def test_news_that_say_nothing_are_looked_at_again_while_there_is_more(lake: MemoryLake) -> None:
    engine = engine_of(lake, Counting([("a", NOTHING)] * 3, 2))
    assert engine.round(now(0))
    assert not engine.round(now(0))
    assert planned(lake) == []


def test_where_states_are_as_they_were_nothing_is_noted(lake: MemoryLake) -> None:
    class Silent(Counting):
        def note(self, *_: Any) -> list[Any]:
            return []

    engine = engine_of(lake, Silent([("a", NOTHING)]))
    engine.round(now(9))
    assert planned(lake) == []


def test_a_round_that_is_due_is_made_though_it_says_nothing(lake: MemoryLake) -> None:
    history = Counting([("a", NOTHING)])
    history.is_due = True
    assert not engine_of(lake, history).round(now(0))
    assert (len(planned(lake)), history.finished) == (1, 1)
    assert [row["round"] for row in rows_of(lake.rows(STATE))] == planned(lake)


def test_a_cluster_that_is_made_again_is_taken_out_alone(lake: MemoryLake) -> None:
    history = Counting(NAMED)
    engine = engine_of(lake, history)
    engine.round(now(0))
    lake.append(STATE, [{"history": JOB, "cluster": "a", "round": 1, "memory": "{}"}])
    engine = engine_of(lake, history)
    with killed_at("done", before=True), suppress(KilledError):
        engine.again("a")
    engine = engine_of(lake, history)
    assert counts(lake) == Counter(each for each in NAMED if each[0] == "b")
    assert (JOB, "a") not in engine.context().states
    assert engine.context().states.keys() == {(JOB, "")}
    assert history.forgotten == ["a"]
    history.named = [*NAMED, ("a", "g")]
    engine.round(now(0))
    assert counts(lake)["a", "g"] == 1, "live rows are not remembered either"


def test_only_a_cluster_with_history_is_made_again(lake: MemoryLake) -> None:
    engine = engine_of(lake, Counting(NAMED))
    engine.round(now(0))
    with pytest.raises(LakeError, match=r"^/memory has no history of a cluster 'c'; see the alia"):
        engine.again("c")
    assert len(planned(lake)) == 1


def test_live_rows_that_a_run_remembers_are_those_of_after_again(lake: MemoryLake) -> None:
    history = Counting([*NAMED])
    engine = engine_of(lake, history)
    lake.append(STATE, [{"history": JOB, "cluster": "a", "round": 1, "memory": "{}"}])
    engine = engine_of(lake, history)
    engine.round(now(0))
    engine.again("a")
    history.named.append(("a", "g"))
    engine.round(now(0))
    assert counts(lake)["a", "g"] == 1


# --- folds that fail ---


def plan_and_die(lake: MemoryLake, named: list[tuple[str, str]]) -> None:
    """Leave a round that is planned and not folded."""
    engine = engine_of(lake, Counting(named))
    engine._rounds.plan({"since": 0, "until": len(named)}, now(0))


def test_a_cluster_that_breaks_a_planned_round_is_left_out_of_later_ones(lake: MemoryLake) -> None:
    named = [("a", "g"), ("b", "broken"), ("a", "g")]
    plan_and_die(lake, named)
    engine = engine_of(lake, Counting(named))
    assert list(engine.left_out) == ["b"]
    caught_up(engine)
    assert counts(lake) == Counter({("a", "g"): 2})
    rows = [row for row in rows_of(lake.rows(STATE)) if row["history"] == f"left out of {JOB}"]
    assert [row["cluster"] for row in rows] == ["b"]
    assert rows[0]["why"].startswith("KeyError: ")
    assert engine_of(lake, Counting(named)).left_out.tried == {"b": 1}, "the lake says so"


def test_a_planned_round_that_a_table_has_is_not_given_up(lake: MemoryLake) -> None:
    named = [("a", "g"), ("b", "broken")]
    plan_and_die(lake, named)
    lake.write(
        LAG_STATES, lake.rows(LAG_STATES), None, {"userMetadata": f"round {planned(lake)[0]}"}
    )
    with pytest.raises(FoldError):
        engine_of(lake, Counting(named))


def test_an_error_that_is_nobodys_ends_the_run(
    lake: MemoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_and_die(lake, NAMED)
    monkeypatch.setattr(Counting, "planned", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        engine_of(lake, Counting(NAMED))


def test_what_was_left_out_is_taken_once_it_can_be(
    lake: MemoryLake, caplog: pytest.LogCaptureFixture
) -> None:
    class Holding(Counting):
        def go_back(self, context: Any) -> Any:
            return ()

    named = [("a", "g"), ("b", "broken")]
    engine = engine_of(lake, Holding(named))
    engine.catch_up()
    assert (counts(lake), list(engine.left_out)) == (Counter({("a", "g"): 1}), ["b"])
    engine.history.named = [*named, ("b", "g")]
    engine.left_out.clock = lambda: 1e12
    engine.catch_up()
    assert counts(lake)["b", "g"] == 1
    assert (list(engine.left_out), engine.left_out.tried) == ([], {})
    assert "cluster(s) b are part of the history of group_lag again" in caplog.text


# --- rounds that a table has lost ---


def lost(lake: MemoryLake, rounds: int) -> list[tuple[str, str]]:
    """What was named: rounds of two, of which the table has lost the last but some."""
    named = [*NAMED, ("b", "g"), ("b", "g")][: 2 * rounds]
    engine = engine_of(lake, Counting(named, 2))
    caught_up(engine)
    return named


def test_the_last_round_is_made_again_if_a_table_has_lost_it(
    lake: MemoryLake, caplog: pytest.LogCaptureFixture
) -> None:
    named = lost(lake, 3)
    lake.lose(LAG_STATES)
    assert counts(lake) != Counter(named)
    engine_of(lake, Counting(named))
    assert counts(lake) == Counter(named)
    assert (
        "internal.lag_states lost round 4, which is done, as in a power cut: it is" in caplog.text
    )


def test_a_lost_round_that_others_built_on_is_not_made_again(
    lake: MemoryLake, caplog: pytest.LogCaptureFixture
) -> None:
    named = lost(lake, 2)
    lake.lose(LAG_STATES)
    last = lake.commits[LAG_STATES][-2]
    lake.write(LAG_STATES, last.rows, "true", {"userMetadata": "round 9"})
    before = counts(lake)
    engine_of(lake, Counting(named))
    assert counts(lake) == before
    assert "cannot be made again: later rounds have built on it. Rows of that" in caplog.text


def test_a_lost_round_whose_input_is_gone_holds_up_nobody(
    lake: MemoryLake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    named = lost(lake, 2)
    lake.lose(LAG_STATES)
    monkeypatch.setattr(Counting, "planned", lambda *_: {}["gone"])
    engine_of(lake, Counting(named))
    assert "cannot be made again: 'gone'" in caplog.text
    monkeypatch.setattr(Counting, "planned", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        engine_of(lake, Counting(named))


@pytest.mark.parametrize(
    ("error", "is_final"),
    [
        (FoldError("x"), True),
        (LakeError("x"), True),
        (KeyError("x"), True),
        (RuntimeError("[DELTA_FILE_NOT_EXIST] x"), True),
        (OSError(28, "no space left"), False),
        (RuntimeError("[KAFKA_METADATA_FOLD] cluster a: x"), True),
    ],
)
def test_an_error_that_comes_again_is_final(error: Exception, is_final: bool) -> None:
    assert _is_final(error) == is_final


# --- commits of a round ---


class Idle(Engine):
    """An engine that only writes what it is given."""

    def __init__(self, writers: ThreadPoolExecutor) -> None:
        self.lake, self._replacing, self._writers = None, True, writers


def test_no_commit_is_under_way_when_a_round_has_failed() -> None:
    """The round is made again, and its commits would meet."""
    failed, asked, written = threading.Event(), threading.Event(), threading.Event()
    found: list[bool] = []

    class Watched(ThreadPoolExecutor):
        def submit(self, *args: Any, **more: Any) -> Any:
            made = super().submit(*args, **more)

            def result() -> None:
                found.append(written.is_set())
                asked.set()
                Future.result(made)

            made.result = result
            return made

    def fail(*_: object, **__: object) -> None:
        failed.set()
        raise OSError("no space left")

    def write(*_: object, **__: object) -> None:
        assert failed.wait(10)
        asked.wait(0.2)
        written.set()

    commits: Any = [SimpleNamespace(write=fail), SimpleNamespace(write=write)]
    step: Any = SimpleNamespace(round=1)
    context: Any = None
    with pytest.raises(OSError, match="no space left"):
        Idle(Watched(2))._write(step, context, News(plan=None), Output({}, commits))
    assert found == [True]


def test_a_run_that_was_overtaken_commits_nothing(lake: MemoryLake) -> None:
    before, after = (engine_of(lake, Counting(NAMED, 2)) for _ in range(2))
    with pytest.raises(LakeError, match=r"^another run \(.*\) makes group_lag of /memory now"):
        before.round(now(0))
    assert counts(lake) == Counter()
    caught_up(after)
    assert counts(lake) == Counter(NAMED)
    assert isinstance(after._rounds.plan({}, now(0)), Step)
