"""All that is measured: which names come together, and how, each in a process of its own."""

from __future__ import annotations

import importlib
import multiprocessing
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.aims import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from multiprocessing.connection import Connection

    from benchmarks.results import Results, Say


@dataclass(frozen=True)
class Measure:
    """Names that come together, and the function that measures them: `module.function`."""

    function: str
    names: tuple[str, ...]

    def load(self) -> Callable[[Path, Say, int], Results]:
        """Return the function: folder to work in, whom to tell, how many runs -> results."""
        module, _, function = self.function.rpartition(".")
        loaded: Callable[[Path, Say, int], Results] = getattr(
            importlib.import_module(f"benchmarks.{module}"), function
        )
        return loaded


def _beginning(start: str) -> tuple[str, ...]:
    return tuple(name for name in BY_NAME if name.startswith(start))


MEASURES: Final = {
    "decode": Measure("decode.decoders", _beginning("decode_")),
    "poll": Measure("poll.polls", _beginning("poll_")),
    "many_answers": Measure("memory.many_answers", _beginning("many_answers_")),
    "groups": Measure("groups.asked", ("groups_s", "offsets_s")),
    "group_log": Measure("group_log.reading", _beginning("group_log_")),
    "transaction_log": Measure("transaction_log.reading", tuple(
        name for name in _beginning("transaction_log_")
        if not name.startswith("transaction_log_5m_"))),
    "transaction_log_5m": Measure(
        "transaction_log.reading_long", _beginning("transaction_log_5m_")),
    "cluster_log": Measure("cluster_log.decoding", _beginning("cluster_log_")),
    "cluster_fold": Measure("cluster_fold.losing_a_broker", ("cluster_fold_s",)),
    "lag_fold": Measure("lag.visits", ("lag_fold_s", "lag_fold_kb", "lag_memory_mb")),
    "log_dirs": Measure("log_dirs.answers", _beginning("log_dirs_")),
    "questions": Measure("views.questions", ("question_s",)),
    "asked": Measure("asked.questions", _beginning("asked_")),
    "pages": Measure("pages.pages", _beginning("pages_")),
    "fleet": Measure("fleet.run.fleet_of_300", tuple(
        name for name in _beginning("fleet_") if not name.startswith("fleet_1000_"))),
    "small": Measure("rounds.warm.small", ("quiet_s", "news_s")),
    "busy": Measure("rounds.live.busy", ("news_busy_s",)),
    "once": Measure("rounds.live.cold", ("once_cold_s",)),
    "freshness": Measure("rounds.beat.quiet", ("freshness_quiet_s",)),
    "faults": Measure("rounds.beat.faults",
        ("freshness_p50_s", "freshness_p90_s", "polls_on_time")),
    "beside": Measure("rounds.beat.busy", ("polls_on_time_busy",)),
    "offsets": Measure("rounds.beat.offsets", ("polls_on_time_offsets",)),
    "first": Measure("rounds.beat.first", ("first_poll_s",)),
    "many": Measure("rounds.warm.many", ("many_quiet_s", "many_news_s")),
    "large": Measure("rounds.warm.large", ("large_s", "large_few_s", "large_mb")),
    "lag": Measure("rounds.visits.lag", ("lag_quiet_s", "lag_news_s")),
    "growth": Measure("rounds.warm.growth", ("growth",)),
    "rest": Measure("rounds.rest.at_rest", ("idle_cores", "rest_mb")),
    "rest_all": Measure("rounds.rest.at_rest_with_all", ("idle_all_cores", "rest_all_mb")),
    "recorder_rest": Measure("rounds.rest.recorder_at_rest",
        ("recorder_cores", "recorder_all_cores")),
    "fleet_1000": Measure("fleet.run.fleet_of_1000", _beginning("fleet_1000_")),
    "sizing": Measure("sizing.sizes", _beginning("sizing_")),
    "year": Measure("year.year", _beginning("year_")),
    "day": Measure("year.day", _beginning("day_")),
    "demo": Measure("rounds.whole.demo", ("demo_s", "demo_polls_on_time", "demo_missed")),
    "test": Measure("rounds.whole.tests", ("test_s",)),
}  # fmt: skip
LONG: Final = (
    "asked", "pages", "transaction_log_5m", "fleet_1000", "sizing", "year", "day", "demo", "test",
)  # fmt: skip
"""Measured when they are asked for."""


class MeasureError(RuntimeError):
    """Raised when something could not be measured. One line, and what it printed."""


def chosen(only: Collection[str], *, every: bool = False) -> tuple[Measure, ...]:
    """Return the measures that give these names, or are called so; without any all, the long ones
    if `every`.
    """
    return tuple(
        measure
        for name, measure in MEASURES.items()
        if {name, *measure.names} & {*only} or (not only and (every or name not in LONG))
    )


def measured(measures: Collection[Measure], runs: int, say: Say) -> Iterator[Results]:
    """Yield the results of each measure, or none where it failed, which is said."""
    for measure in measures:
        say(f"measure {', '.join(measure.names)}")
        start = time.perf_counter()
        try:
            yield in_a_process(measure, runs)
            say(f"that took {time.perf_counter() - start:.0f} s")
        except MeasureError as error:
            say(f"NOT MEASURED: {error}")
            yield {}


def in_a_process(measure: Measure, runs: int) -> Results:
    """Measure in a process of its own, so that no JVM is left of it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(measure, runs, theirs))
    process.start()
    theirs.close()
    try:
        results: Results | str = ours.recv()
    except EOFError:
        results = "its process ended"
    except BaseException:
        process.terminate()
        raise
    finally:
        process.join()
    if isinstance(results, str):
        raise MeasureError(results)
    return results


def _run(measure: Measure, runs: int, to: Connection) -> None:
    # So that everything that was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    start = time.perf_counter()

    def say(what: str) -> None:
        print(f"  [{time.perf_counter() - start:4.0f} s] {what}", flush=True)

    with tempfile.TemporaryDirectory(prefix="benchmarks-", ignore_cleanup_errors=True) as folder:
        try:
            to.send(measure.load()(Path(folder), say, runs))
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are measured
            to.send(f"{type(error).__name__}: {error}")
