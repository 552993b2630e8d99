"""How long pages of `serve` take of a lake of a year (benchmarks/year_lake/), and their memory.

Cold is the first answer of a server that has just begun, warm that of another server that has
answered another page of the kind before. At the end 100 pages wait for changes, and five questions
are asked at once.
"""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import psutil

from benchmarks.asked import year_lake
from benchmarks.processes import Watch
from benchmarks.product import ROOT
from benchmarks.results import Measured, Results, median
from jobs.configuration.config import load
from kafka_metadata_history.opened import without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from benchmarks.results import Say

_OPEN: Final = 100
_AT_ONCE: Final = ("timeline", "rebalances", "lag", "leader_churn", "who_left_first")
_NAMES: Final = {
    "cluster": "SELECT cluster FROM gold.leader_changes GROUP BY cluster ORDER BY count(*) DESC",
    "topic": "SELECT topic FROM gold.leader_changes WHERE cluster = '{cluster}' "
    "GROUP BY topic ORDER BY count(*) DESC",
    "group": "SELECT group_id FROM gold.rebalances WHERE cluster = '{cluster}' "
    "GROUP BY group_id ORDER BY count(*) DESC",
    "incident": "SELECT id FROM gold.incidents WHERE cluster = '{cluster}' "
    "ORDER BY began_before DESC",
}


def pages(_folder: Path, say: Say, runs: int) -> Results:
    """Measure pages_*_cold_s, pages_*_warm_s, pages_mb and pages_scrape_s."""
    config = year_lake(say)
    ask = without_spark(load(str(config)).lake)
    names: dict[str, str] = {}
    for name, sql in _NAMES.items():
        found = ask(f"{sql.format(**names)} LIMIT 1").column(0).to_pylist()
        names |= {name: found[0]} if found else {}
    found_: Results = {}
    for page, path in _paths(names).items():
        cold, warm = [], []
        for _ in range(runs):
            with _serving(config) as (port, _):
                cold.append(_get(port, path))
                # Other addresses of the kind: what is kept would take nothing.
                warm.append(_get(port, f"{path}{'&' if '?' in path else '?'}until=1+second"))
        found_ |= {f"pages_{page}_cold_s": median(cold), f"pages_{page}_warm_s": median(warm)}
        say(f"{page}: {found_[f'pages_{page}_cold_s'].value:.2f} s, then {warm[-1]:.2f} s")
    found_["pages_mb"] = Measured(most := _crowd(config, names), (most,))
    with _serving(config) as (port, _):
        _get(port, "/metrics")
        found_["pages_scrape_s"] = median([_get(port, "/metrics") for _ in range(5)])
    return found_


def _paths(names: Mapping[str, str]) -> dict[str, str]:
    """The address of each kind of page."""
    cluster = {"cluster": names["cluster"]}
    given = {
        each: urlencode({**cluster, each: names[each]})
        for each in ("topic", "group")
        if each in names
    }
    return {
        "fleet": "/",
        "cluster": f"/cluster?{urlencode(cluster)}",
        **({"incident": f"/incident/{names['incident']}"} if "incident" in names else {}),
        "broker": f"/broker?{urlencode({**cluster, 'broker': 1})}",
        **{each: f"/{each}?{query}" for each, query in given.items()},
        "figures": f"/figures?{urlencode(cluster)}",
    }


def _crowd(config: Path, names: Mapping[str, str]) -> float:
    """The server's memory, in MB at most, while pages are open and questions are asked."""
    with _serving(config) as (port, process):
        waiting = [http.client.HTTPConnection("127.0.0.1", port, timeout=60) for _ in range(_OPEN)]
        for each in waiting:
            each.request("GET", "/changes")
            each.getresponse().readline()
        with Watch(lambda: [process]) as watch:
            asked = [f"/ask/{each}" for each in _AT_ONCE] + list(_paths(names).values())
            threads = [threading.Thread(target=_get, args=(port, path)) for path in asked]
            for number in range(0, len(threads), 5):
                for each in threads[number : number + 5]:
                    each.start()
                for each in threads[number : number + 5]:
                    each.join()
        for each in waiting:
            each.close()
        return watch.memory["all"].one


def _get(port: int, path: str) -> float:
    """The seconds that an answer takes."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        begin = time.perf_counter()
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: status {answer.status}: {text[-300:]!r}")
        return time.perf_counter() - begin


@contextmanager
def _serving(config: Path) -> Iterator[tuple[int, psutil.Process]]:
    command = [sys.executable, "-m", "kafka_metadata_history", "serve", "--port", "0"]
    with subprocess.Popen(
        [*command, "--config", str(config)], cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            line = process.stderr.readline() if process.stderr else ""
            found = re.search(r":(\d+) shows", line)
            if found is None:
                raise RuntimeError(f"serve: {line}")
            yield int(found[1]), psutil.Process(process.pid)
        finally:
            process.terminate()
