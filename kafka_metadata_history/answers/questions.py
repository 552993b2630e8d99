"""Questions to a lake: named ones of schemas/queries/ or SQL, about a window of time, narrowed or
not; and the lines beside an answer. Knows no engine: `Ask` is whoever has the lake open.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from textwrap import wrap

import pyarrow as pa

from jobs.configuration.reading import duration
from kafka_metadata_history.answers.markers import markers_of, with_values
from metadata_source.errors import KafkaMetadataHistoryError
from metadata_source.text import did_you_mean, printable
from schemas import table

QUERIES = Path(table.__file__).parent / "queries"
FILTERS = {
    "cluster": "this cluster alone, by its alias",
    "topic": "this topic alone; timelines keep events of brokers and controllers",
    "broker": "this broker alone, by its id",
    "group": (
        "this consumer, share or streams group alone; timelines keep events of brokers and "
        "controllers"
    ),
    "at_least": "what has lasted for so long, such as '5 minutes'",
    "incident": "this incident alone, by its id",
    "slo": "the service level objective that a budget follows from, in percent, such as 99.95",
}
"""Parameters of questions that may be null: what each narrows the answer to, or measures it by."""
THEMES = (
    *("what happened", "brokers", "partitions", "groups", "transactions", "maintenance"),
    "recording",
)
"""What questions are about, in the order in which they are listed."""
FREE = "SELECT"
"""The name of SQL that is no named question."""
_THEME = "theme: "
LIST_WIDTH = 120
"""Of the list of questions, in characters."""
LINES = 5
"""So many clusters, or gaps of a report, have a line of their own beside an answer."""

Ask = Callable[[str], pa.Table]
"""Answers a query in Spark's SQL, which names tables and views of the lake."""


class QueryError(KafkaMetadataHistoryError, ValueError):
    """Raised for a question that nobody can answer as it stands. One line."""

    exit_status = 2


@dataclass(frozen=True)
class Question:
    """A query about [`since`, `until`]. `filters`: the options that narrow it, by name. `sql`: it
    with all values.
    """

    query: str
    since: datetime
    until: datetime
    filters: Mapping[str, object]
    sql: str


def question(
    query: str, since: str, until: str | None, filters: Mapping[str, object], now: datetime
) -> Question:
    """Make a question. `since`, `until`: as `moment` takes them; `filters`: None narrows nothing.
    In SQL `:at_least` is a whole number of seconds.

    Raises QueryError for an unknown name, time or duration, and for a filter that the query does
    not know.
    """
    text = text_of(query)
    end = moment(until, now) if until else now
    begin = moment(since, end)
    if begin > end:
        raise QueryError(f"--since {shown(begin)} is after --until {shown(end)}")
    given = {name: value for name, value in filters.items() if value is not None}
    narrowing = filters_of(query)
    if idle := [name for name in given if name not in narrowing]:
        known = [option(name) for name in narrowing]
        narrowed = f"it takes {', '.join(known)}" if known else "nothing narrows it"
        raise QueryError(
            f"{name_of(query)}: {option(idle[0])} does not narrow this query; {narrowed}"
        )
    values = dict.fromkeys(FILTERS) | given | {"since": begin.isoformat(), "until": end.isoformat()}
    if "at_least" in given:
        values["at_least"] = math.ceil((end - moment(str(given["at_least"]), end)).total_seconds())
    if "slo" in given:
        values["slo"] = str(_objective(str(given["slo"])))
    return Question(query, begin, end, given, with_values(text, values))


def _objective(text: str) -> float:
    with suppress(ValueError):
        if 0 < (percent := float(text)) < 100:
            return percent
    raise QueryError(f"--slo {text}: not a percentage above 0 and below 100, such as 99.95")


def option(name: str) -> str:
    """A filter as the command line has it."""
    return f"--{name.replace('_', '-')}"


def names() -> list[str]:
    """The names of the questions, sorted."""
    return sorted(file.stem for file in QUERIES.glob("*.sql"))


def by_theme() -> dict[str, list[str]]:
    """Theme -> the names of its questions, sorted. Each question has one of THEMES."""
    of = {name: _head(name)[-1].removeprefix(_THEME) for name in names()}
    return {theme: [name for name in names() if of[name] == theme] for theme in THEMES}


def about(name: str) -> tuple[str, str]:
    """The comment at the head of a named question: its first line, and the rest as one line. Its
    last line is the theme, and left out.
    """
    short, *more, _ = _head(name)
    return short, " ".join(more)


def _head(name: str) -> list[str]:
    lines = takewhile(lambda line: line.startswith("--"), text_of(name).splitlines())
    return [line.removeprefix("--").strip() for line in lines]


def filters_of(query: str) -> list[str]:
    """The names of the filters that narrow a question."""
    markers = markers_of(text_of(query))
    return [name for name in FILTERS if name in markers]


def listed() -> list[str]:
    """A line for each named question, below a line for its theme: its name, what it answers, and
    the options that narrow it.
    """
    short = {name: about(name)[0] for name in names()}
    widths = max(map(len, short)), max(map(len, short.values()))
    lines = []
    for theme, of in by_theme().items():
        lines += [f"{theme}:"]
        for name in of:
            narrowed = " ".join(map(option, filters_of(name)))
            begin = f"{name:{widths[0]}}  {short[name]}"
            # Many options begin further to the left.
            width = min(sum(widths) + 2, LIST_WIDTH - 2 - len(narrowed))
            lines += [f"{begin:{width}}  {narrowed}".rstrip()]
    return lines


def described(name: str) -> list[str]:
    """Lines that say what a named question answers, and what narrows it."""
    short, more = about(name)
    narrowed = filters_of(name)
    width = max((len(option(each)) for each in narrowed), default=0)
    return [
        f"{name}: {short}",
        *wrap(more, 100),
        "",
        "--since and --until are the window, the last day unless given.",
        *(f"{option(each):{width}}  {FILTERS[each]}" for each in narrowed),
    ]


def text_of(query: str) -> str:
    """The SQL of a named question; free SQL as it is. Raises QueryError for an unknown name."""
    if " " in query.strip():
        return query
    if query not in names():
        hint = did_you_mean(query, names(), f"there are {', '.join(names())}")
        raise QueryError(f"no query is called {query!r}; {hint}")
    return (QUERIES / f"{query}.sql").read_text(encoding="utf-8")


def name_of(query: str) -> str:
    """The name of a question, or FREE."""
    return FREE if " " in query.strip() else query


def one_of(names: Sequence[str], given: str | None, whose: str) -> str:
    """The cluster that --cluster gives, or the only one. `whose`: who has those of `names`. Raises
    QueryError for another one, and for none if there are several.
    """
    if given is None and len(names) > 1:
        raise QueryError(printable(f"{whose} has {', '.join(names)}: name one with --cluster"))
    for name in names:
        if given in {None, name}:
            return name
    close = did_you_mean(str(given), names)
    hint = f"; {close}" if close else ""
    raise QueryError(printable(f"--cluster {given}: {whose} has {', '.join(names)}{hint}"))


def moment(text: str, before: datetime) -> datetime:
    """A time: an ISO one (UTC unless it says otherwise), or a duration before `before`."""
    with suppress(ValueError):
        at = datetime.fromisoformat(text)
        return at if at.tzinfo else at.replace(tzinfo=UTC)
    with suppress(ValueError, OverflowError):
        return before - duration(text)
    raise QueryError(
        f"{text!r} is neither a time like 2026-11-21T10:00:00Z nor a duration like '2 hours'"
    )


def shown(at: datetime) -> str:
    """A time for people, to the second."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


# --- beside an answer ---


_OF_CLUSTER = "(CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)"
_KNOWN = {
    "cluster": "SELECT cluster AS known FROM internal.clusters",
    # Gold may be kept for longer than silver.
    "topic": f"""SELECT topic AS known FROM silver.topic_snapshots WHERE {_OF_CLUSTER}
        UNION SELECT topic FROM gold.isr_episodes WHERE {_OF_CLUSTER}
        UNION SELECT topic FROM gold.leader_changes WHERE {_OF_CLUSTER}""",
    "broker": f"""SELECT broker_id AS known FROM silver.broker_snapshots WHERE {_OF_CLUSTER}
        UNION SELECT broker_id FROM silver.broker_registrations WHERE {_OF_CLUSTER}
        UNION SELECT broker_id FROM gold.broker_incidents WHERE {_OF_CLUSTER}""",
    "group": f"""SELECT group_id AS known FROM silver.group_snapshots WHERE {_OF_CLUSTER}
        UNION SELECT group_id FROM gold.group_lives WHERE {_OF_CLUSTER}
        UNION SELECT group_id FROM gold.rebalances WHERE {_OF_CLUSTER}""",
    "incident": f"SELECT id AS known FROM gold.incidents WHERE {_OF_CLUSTER}",
}
"""Filter -> the values that history knows."""
_REACH = (
    "SELECT cluster, greatest(silver_from, gold_from) AS since, until FROM silver.reach WHERE "
    f"{_OF_CLUSTER}"
)
_GAPS = f"""SELECT cluster, gap_start, gap_end, reason, error_kinds, h.since IS NOT NULL AS is_told
    FROM silver.poll_gaps g LEFT JOIN (
      SELECT cluster_id, valid_from AS since,
        CASE WHEN valid_to IS NOT NULL THEN last_seen_at END AS until
      FROM silver.history_sources WHERE source = 'log'
    ) h ON h.cluster_id = g.cluster_id AND h.since <= g.gap_start
      AND (h.until IS NULL OR h.until >= g.gap_end)
    WHERE gap_start <= CAST(:until AS TIMESTAMP) AND gap_end >= CAST(:since AS TIMESTAMP)
      AND {_OF_CLUSTER}
    ORDER BY gap_start, cluster"""

_OF_LOG = {"broker_states", "throttles"}
"""Questions that only the controllers' log answers."""
_UNREAD = f"""SELECT cluster FROM internal.clusters WHERE {_OF_CLUSTER}
    AND cluster NOT IN (SELECT cluster FROM silver.broker_registrations) ORDER BY cluster"""


def check_filters(filters: Mapping[str, object], ask: Ask) -> None:
    """Raise QueryError for a filter whose value history does not know: an empty answer would say
    that all is well. `filters`: without those that are not given.
    """
    cluster = filters.get("cluster")
    for name, value in filters.items():
        if name not in _KNOWN:
            continue
        known = ask(with_values(_KNOWN[name], {"cluster": cluster}))["known"].to_pylist()
        if value not in known:
            texts = sorted({str(each) for each in known if each is not None})
            few = f"did you mean {' or '.join(texts)}?" if 0 < len(texts) <= LINES else ""
            hint = f"; {close}" if (close := did_you_mean(str(value), texts, few)) else ""
            of_cluster = (
                f" of cluster {cluster}" if cluster is not None and name != "cluster" else ""
            )
            raise QueryError(
                printable(f"--{name} {value}: history{of_cluster} knows no such {name}{hint}")
            )


def reach(asked: Question, ask: Ask, most: int | None = LINES) -> list[str]:
    """Lines that say from when to when history is known, and which gaps it has in the window: one
    line for all of them if they are more than `most`. If only the controllers' log has the answer,
    and nobody has read it, they say that.
    """
    values = {
        "cluster": asked.filters.get("cluster"),
        "since": asked.since.isoformat(),
        "until": asked.until.isoformat(),
    }
    clusters = ask(with_values(_REACH, values)).to_pylist()
    gaps = ask(with_values(_GAPS, values)).to_pylist()
    unread = (
        ask(with_values(_UNREAD, values))["cluster"].to_pylist() if asked.query in _OF_LOG else []
    )
    lines = [
        *_reaches(sorted(clusters, key=lambda row: str(row["cluster"])), asked.since),
        *_gaps(gaps, most),
    ]
    return lines + ([_unread(unread)] if unread else [])


def _unread(clusters: list[str]) -> str:
    named = printable(", ".join(clusters[:LINES])) + (
        f" and {more} more" if (more := len(clusters) - LINES) > 0 else ""
    )
    return (
        f"the controllers' log of {named} was not read, and nothing else has the answer: `check` "
        "says what it takes"
    )


def _reaches(clusters: list[dict[str, datetime]], since: datetime) -> Iterable[str]:
    if not clusters:
        yield "history is empty: no cluster had a good poll that became history"
    if len(clusters) > LINES:
        begins = [row["since"] for row in clusters if row["since"] is not None]
        ends = [row["until"] for row in clusters if row["until"] is not None]
        yield (
            f"history of {len(clusters)} clusters: the first begins {shown(min(begins))}, the last "
            f"{shown(max(begins))}; the first ends {shown(min(ends))}, the last {shown(max(ends))}"
        )
        return
    for row in clusters:
        begin = row["since"]
        late = "; it lacks the beginning of the window" if begin is None or begin > since else ""
        known = (
            f"{shown(begin) if begin else '?'} to {shown(row['until']) if row['until'] else '?'}"
        )
        yield f"history of {printable(str(row['cluster']))}: {known}{late}"


def _gaps(gaps: list[dict[str, object]], most: int | None) -> Iterable[str]:
    if most is None or len(gaps) <= most:
        yield from map(_gap, gaps)
    else:
        reasons = ", ".join(sorted({str(gap["reason"]) for gap in gaps}))
        told = sum(bool(gap["is_told"]) for gap in gaps)
        of_them = "" if told == len(gaps) else f" in {told} of them"
        log = f"; the controllers' log told meanwhile{of_them}" if told else ""
        # The sum of what the list shows.
        seconds = sum((end - begin).total_seconds() for begin, end in map(_ends, gaps))
        yield (
            f"{len(gaps)} gaps, {seconds:,.0f} s together ({reasons}{log}); `query --wide` lists "
            "them"
        )


def _gap(gap: dict[str, object]) -> str:
    (begin, end), kinds = _ends(gap), gap["error_kinds"]
    why = (
        f"{gap['reason']}: {', '.join(map(str, kinds))}"
        if isinstance(kinds, list) and kinds
        else gap["reason"]
    )
    why = f"{why}; the controllers' log told meanwhile" if gap["is_told"] else why
    return f"gap of {printable(str(gap['cluster']))}: {shown(begin)} to {shown(end)} ({why})"


def _ends(gap: dict[str, object]) -> tuple[datetime, datetime]:
    """Both ends, to the second."""
    begin, end = gap["gap_start"], gap["gap_end"]
    assert isinstance(begin, datetime)  # noqa: S101 - for mypy
    assert isinstance(end, datetime)  # noqa: S101
    return begin.replace(microsecond=0), end.replace(microsecond=0)
