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

from benchmarks.rounds.aims import AIMS, ONLY_IF_ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from multiprocessing.connection import Connection

    from benchmarks.rounds.results import Results


@dataclass(frozen=True)
class Measure:
    """Names that come together, and the function, of a module here, that measures them."""

    names: tuple[str, ...]
    module: str
    function: str

    def load(self) -> Callable[[Path, Callable[[str], None], int], Results]:
        """Return the function: folder to work in, whom to tell, how many runs -> results."""
        module = importlib.import_module(f"benchmarks.rounds.{self.module}")
        loaded: Callable[[Path, Callable[[str], None], int], Results] = getattr(
            module, self.function
        )
        return loaded


SUITE: Final = (
    Measure(("quiet_s", "news_s"), "warm", "small"),
    Measure(("news_busy_s",), "live", "busy"),
    Measure(("once_cold_s",), "live", "cold"),
    Measure(("freshness_quiet_s",), "beat", "quiet"),
    Measure(("freshness_p50_s", "freshness_p90_s", "polls_on_time"), "beat", "faults"),
    Measure(("polls_on_time_busy",), "beat", "busy"),
    Measure(("polls_on_time_offsets",), "beat", "offsets"),
    Measure(("first_poll_s",), "beat", "first"),
    Measure(("many_quiet_s", "many_news_s"), "warm", "many"),
    Measure(("large_s", "large_few_s", "large_mb"), "warm", "large"),
    Measure(("lag_quiet_s", "lag_news_s"), "visits", "lag"),
    Measure(("growth",), "warm", "growth"),
    Measure(("idle_cores", "rest_mb"), "rest", "at_rest"),
    Measure(("demo_s",), "whole", "demo"),
    Measure(("test_s",), "whole", "tests"),
)


class MeasureError(RuntimeError):
    """Raised when something could not be measured. One line, and what it printed."""


def chosen(only: Collection[str] | None, *, every: bool) -> tuple[Measure, ...]:
    """Return the measures that give these names; without any, all; long ones if `every`."""
    wanted = set(only or (aim.name for aim in AIMS if every or aim.name not in ONLY_IF_ALL))
    return tuple(measure for measure in SUITE if wanted.intersection(measure.names))


def measured(
    measures: Collection[Measure], runs: int, say: Callable[[str], None]
) -> Iterator[Results]:
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

    with tempfile.TemporaryDirectory(prefix="rounds-", ignore_cleanup_errors=True) as folder:
        try:
            to.send(measure.load()(Path(folder), say, runs))
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are measured
            to.send(f"{type(error).__name__}: {error}")
