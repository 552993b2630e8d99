"""The pages of the fleet, of a cluster, an incident, a topic, a broker and a group."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from jobs.configuration.severities import NOTHING_RECORDED
from kafka_metadata_history.answers.asof import diff as differing
from kafka_metadata_history.answers.asof import show
from kafka_metadata_history.answers.asof.read import AsOf, reaches, time_of
from kafka_metadata_history.answers.incidents import story, words, written
from kafka_metadata_history.answers.incidents.listing import Listing, not_made, silent
from kafka_metadata_history.answers.incidents.read import (
    read_account,
    read_open,
    read_over,
    read_recorded,
)
from kafka_metadata_history.answers.questions import (
    QueryError,
    about,
    check_filters,
    filters_of,
    moment,
    one_of,
    question,
    reach,
    shown,
)
from kafka_metadata_history.answers.thresholds import span
from kafka_metadata_history.answers.whatif.losses import with_racks
from kafka_metadata_history.answers.whatif.read import LOST, loss_of, read_record
from kafka_metadata_history.answers.whatif.rules import what_if
from kafka_metadata_history.answers.whatif.written import FORMS as WHAT_IF_FORMS
from kafka_metadata_history.web.page import (
    Field,
    Figures,
    Form,
    Link,
    Page,
    Rows,
    Slider,
    Text,
    address,
    filters_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafka_metadata_history.answers.asof.read import Reach
    from kafka_metadata_history.answers.incidents.records import Incident
    from kafka_metadata_history.web.page import Asking, Section

MOST: Final = 200
"""Rows of a table; all of them are a question's."""
EVENTS: Final = 50
"""Of a timeline; all of them are a question's."""
STEPS: Final = 300
"""Of a slider: the newest."""
DAY: Final = "1 day"
_OBJECTIVE: Final = 99
"""In percent; the budget that follows says how many seconds somebody observed."""
_MARGIN: Final = timedelta(minutes=2)
"""Of an incident's figures, before and after."""
WINDOW: Final = (
    Field("since", "Since", DAY, "a time in ISO form, or how long ago"),
    Field("until", "Until", "", "a time in ISO form, or how long ago; empty: now"),
)


def fleet(of: Asking) -> Page:
    """Each cluster's state now, open incidents, availability of seven days, the worst first."""
    cluster = of.given.get("cluster")
    state = AsOf.of(of.ask, reaches(of.ask, cluster), None)
    rows, lacks = show.clusters(state, of.now)
    recorded = read_recorded(of.ask, cluster)
    open_ = read_open(of.ask, cluster)
    counts = Counter(each.cluster for each in open_)
    names = rows["cluster"].to_pylist()
    spent = _availability(of, cluster)
    rows = rows.append_column("open_incidents", pa.array([counts[each] for each in names]))
    for column, values in spent.items():
        rows = rows.append_column(
            column, pa.array([values.get(each) for each in names], pa.float64())
        )
    rows = rows.select(
        [
            "cluster", "open_incidents", "offline", "under_min_isr_min", "under_min_isr_max",
            "under_replicated", "brokers", "fenced", *spent, "age_s", "partitions", "controller_id",
            "racks",
        ]
    )  # fmt: skip
    listing = Listing(
        recorded,
        open_,
        read_over(of.ask, cluster),
        [name for name in of.config.clusters if cluster in {None, name}],
        of.config.severities[NOTHING_RECORDED].page,
    )
    not_seen = [
        f"nothing recorded of {name}"
        + (f" since {shown(at)}, {span(of.now - at)} ago" if at else "")
        for name, at in silent(listing, of.now)
    ]
    return Page(
        "Fleet",
        "/",
        [
            Rows(
                "clusters",
                "Clusters",
                rows,
                "The state as it is known, the worst first. Availability is of the last seven days "
                "(UTC), in percent, as metadata tells.",
                lines=lacks,
            ),
            _incidents("open", "Open incidents", open_[:MOST], "No incident is known to be open."),
            _incidents("over", "Over", listing.over, "None was there before."),
        ],
        lines=[*not_seen, *state.lines(of.now), *not_made(recorded)],
    )


def _availability(of: Asking, cluster: str | None) -> dict[str, dict[str, float | None]]:
    """For reads and for writes: cluster -> the least availability of seven days, in percent."""
    filters = {"cluster": cluster, "slo": str(_OBJECTIVE)}
    rows = of.ask(question("availability", "7 days", None, filters, of.now).sql).to_pylist()
    found: dict[str, dict[str, float | None]] = {
        "available_for_reads": {},
        "available_for_writes": {},
    }
    for row in rows:
        if row["topic"] is None and row["budget_s"] and row["spent_s_max"] is not None:
            observed = row["budget_s"] * 100 / (100 - _OBJECTIVE)
            least = 100 * (1 - row["spent_s_max"] / observed)
            found[f"available_for_{row['bad_for']}"][row["cluster"]] = round(least, 4)
    return found


def _incidents(name: str, title: str, found: Sequence[Incident], empty: str) -> Rows:
    table = pa.Table.from_pylist(
        [
            {
                "severity": each.severity,
                "incident": each.id,
                "cluster": each.cluster,
                "began": shown(each.began_before),
                "ended": shown(each.ended_before) if each.ended_before else "",
                "what": words.of_incident(each),
                "hurt": story.hurt(each),
                "cause": words.cause(each.cause, each.cause_of, each.cause_sureness),
            }
            for each in found
        ],
        pa.schema(
            [
                (each, pa.string())
                for each in (
                    "severity", "incident", "cluster", "began", "ended", "what", "hurt", "cause",
                )
            ]
        ),
    )  # fmt: skip
    return Rows(name, title, table, empty=empty)


def cluster(of: Asking) -> Page:
    """A cluster at any time: its brokers by rack, partitions that are not well, its timeline."""
    name, at = _cluster(of), of.given.get("at")
    known = reaches(of.ask, name)
    state = AsOf.of(of.ask, known, time_of(at, of.now))
    rows, lacks = show.clusters(state, of.now)
    partitions = show.not_well(state)
    window = _window(of, known, DAY)
    timeline = _timeline(of, window, {"cluster": name})
    return Page(
        name,
        "/cluster",
        [
            _slider(of, timeline, known),
            Rows("state", "State", rows, lines=lacks),
            Rows(
                "brokers",
                "Brokers by rack",
                show.loads(state, partitions),
                "How many partitions each one leads and replicates, and how many of those are at "
                "each level.",
                "No broker is known.",
            ),
            Rows(
                "partitions",
                "Partitions that are not well",
                partitions.slice(0, MOST),
                _part(len(partitions)),
                "All partitions are in sync.",
            ),
            _incidents(
                "open",
                "Open incidents now",
                read_open(of.ask, name)[:MOST],
                "No incident is known to be open.",
            ),
            _figures(window, {"cluster": name}),
            _last(timeline, "Timeline", window, {"cluster": name}),
            Form(
                "difference",
                "Differences between two times",
                "/diff",
                [
                    Field("cluster", "Cluster", name),
                    Field("from", "From", DAY, "a time in ISO form, or how long ago"),
                    Field("to", "To", "", "empty: the newest state"),
                ],
            ),
            Form(
                "whatif",
                "The effects of a loss",
                "/whatif",
                [
                    Field("cluster", "Cluster", name),
                    Field("kind", "Lose", "broker", choices=LOST),
                    Field("lose", "Its id or name", "", "ids: 1 or 1,2; a rack's name"),
                    Field("at", "At", at or "", "empty: the newest state"),
                ],
            ),
        ],
        cluster=name,
        lines=[*state.lines(of.now), *_reach(of, window, {"cluster": name})],
    )


def _slider(of: Asking, timeline: pa.Table, known: Sequence[Reach]) -> Slider:
    times = sorted({*timeline["began_before"].to_pylist()} - {None})
    of_record = [each for each in times if any(one.has(each) for one in known)]
    here = {name: value for name, value in of.given.items() if name != "at"}
    steps = [each.isoformat() for each in of_record[-STEPS:]]
    return Slider("at", steps, of.given.get("at"), here)


def incident(of: Asking) -> Page:
    """An incident: its story, the chain of its findings, and the figures of its time."""
    recorded = read_recorded(of.ask, None)
    account = read_account(of.ask, of.given["id"], of.given.get("cluster"), recorded)
    found = account.incident
    day = words.day_of(*(each.began_before for each in account.findings))
    chain = [
        dict(zip(("when", "finding", "why"), story.told(each, day), strict=True))
        for each in account.findings
    ]
    began = found.began_after or found.began_before
    ended = found.ended_before or account.recorded.until or found.began_before
    window = {"since": (began - _MARGIN).isoformat(), "until": (ended + _MARGIN).isoformat()}
    own = {"cluster": found.cluster}
    links = question(
        "incident_links", window["since"], window["until"], {**own, "incident": found.id}, of.now
    )
    timeline = _timeline(of, window, own)
    return Page(
        words.capital(words.of_incident(found)),
        "/incident",
        [
            Text("story", "Story", written.as_text(account, of.now, None)),
            Rows(
                "chain",
                "Chain",
                pa.Table.from_pylist(
                    chain[:MOST],
                    pa.schema([(each, pa.string()) for each in ("when", "finding", "why")]),
                ),
                "In order of time; why each follows, and how sure that is.",
                "No finding is recorded.",
            ),
            _figures(window, own),
            Rows(
                "rows",
                "Rows behind each",
                _first(of.ask(links.sql)),
                more=_all("incident_links", window, {**own, "incident": found.id}),
            ),
            _last(timeline, "Timeline of the cluster meanwhile", window, own),
        ],
        cluster=found.cluster,
        lines=[story.sentence(found), story.record_age(account, of.now)],
        links=[
            Link(
                "The cluster when it began",
                address(
                    "/cluster",
                    cluster=found.cluster,
                    at=found.began_before.isoformat(),
                    since=window["since"],
                    until=window["until"],
                ),
            )
            for each in reaches(of.ask, None)
            if each.cluster == found.cluster and each.has(found.began_before)
        ],
    )


def topic(of: Asking) -> Page:
    """A topic: its partitions at a time, its settings over time, what happened to it."""
    name = _required(of, "topic")
    asked = ["who_left_first", "leader_churn", "time_at_level", "reassignments", "availability"]
    return _thing(of, "topic", name, "Partitions", partial(show.topic, name=name), asked)


def broker(of: Asking) -> Page:
    """A broker: what it leads, replicates and lacks at a time, what happened to it."""
    text = _required(of, "broker")
    if not text.isdecimal():
        raise QueryError(f"broker {text}: not a broker's id, a whole number")
    asked = ["broker_incidents", "broker_states", "away_from_preferred", "restart_steps"]
    return _thing(
        of, "broker", int(text), "State", partial(show.broker, broker_id=int(text)), asked
    )


def group(of: Asking) -> Page:
    """A group: its members at a time, its lag, its rebalances and their cost."""
    name = _required(of, "group")
    asked = ["lag", "rebalances", "rebalance_cost", "who_joined_and_left", "crash_loops"]
    return _thing(of, "group", name, "Members", partial(show.group, group_id=name), asked)


def _thing(  # noqa: PLR0917 - all of them differ by kind
    of: Asking,
    kind: str,
    name: str | int,
    title: str,
    state_of: Callable[[AsOf], tuple[pa.Table, list[str]]],
    asked: Sequence[str],
) -> Page:
    """The page of one thing of a cluster: its state, then what named questions answer of it."""
    cluster_ = _cluster(of)
    own: dict[str, object] = {"cluster": cluster_, kind: name}
    check_filters(own, of.ask)
    known = reaches(of.ask, cluster_)
    state = AsOf.of(of.ask, known, time_of(of.given.get("at"), of.now))
    rows, lacks = state_of(state)
    window = _window(of, known, "7 days")
    timeline = _timeline(of, window, own)
    sections: list[Section] = [
        _slider(of, timeline, known),
        Rows(
            "state", title, rows.slice(0, MOST), _part(len(rows)), "It was not there then.", lacks
        ),
        *(_answer(of, each, window, own) for each in asked),
        Rows(
            "settings",
            "Settings over time",
            _newest(timeline.filter(pc.is_in(timeline["what"], pa.array(_SETTINGS)))),
            empty="None changed in this window, as far as it is known.",
        ),
        _figures(window, own),
        _last(timeline, "Timeline", window, own),
    ]
    return Page(
        f"{kind.capitalize()} {name}",
        f"/{kind}",
        sections,
        cluster=cluster_,
        lines=[*state.lines(of.now), *_reach(of, window, own)],
        links=[Link(cluster_, address("/cluster", cluster=cluster_))],
    )


_SETTINGS: Final = ("config_set", "config_changed", "config_removed")
"""What a timeline calls changes of settings."""


def difference(of: Asking) -> Page:
    """The differences between two times."""
    name = _cluster(of)
    known = reaches(of.ask, name)
    begin, end = moment(of.given.get("from", DAY), of.now), time_of(of.given.get("to"), of.now)
    if end is not None and begin > end:
        raise QueryError(f"from {shown(begin)} is after to {shown(end)}")
    before = AsOf.of(of.ask, known, begin, "from")
    after = AsOf.of(of.ask, known, end, "to")
    named = filters_in(of.given, "topic", "broker", "group")
    check_filters({"cluster": name, **named}, of.ask)
    rows, lines = differing.between_times(before, after)
    found = differing.differences(
        differing.narrowed(rows, named), differing.hidden(before), differing.hidden(after)
    )
    table = differing.as_rows(differing.folded(found))
    return Page(
        f"{name}: {shown(begin)} and {shown(after.at_of(name))}",
        "/diff",
        [
            Rows(
                "differences",
                "Differences",
                table.slice(0, MOST),
                f"Like differences are one row. {_part(len(table))}",
                "Nothing differs, as far as it is known.",
            ),
            Form(
                "difference",
                "Other times",
                "/diff",
                [
                    Field("cluster", "Cluster", name),
                    Field(
                        "from",
                        "From",
                        of.given.get("from", DAY),
                        "a time in ISO form, or how long ago",
                    ),
                    Field("to", "To", of.given.get("to", ""), "empty: the newest state"),
                    *(
                        Field(each, each.capitalize(), of.given.get(each, ""), f"this {each} alone")
                        for each in ("topic", "broker", "group")
                    ),
                ],
            ),
        ],
        cluster=name,
        lines=[*before.notes(), *after.lines(of.now), *lines],
        links=[Link(name, address("/cluster", cluster=name))],
    )


def whatif(of: Asking) -> Page:
    """The effects of the loss of brokers, of a rack or of controllers."""
    name = _cluster(of)
    kind = of.given.get("kind", "broker")
    if kind not in LOST:
        raise QueryError(f"kind {kind}: there are {', '.join(LOST)}")
    record = read_record(of.ask, name, of.given.get("at"), of.now, {})
    known = with_racks(record.cluster, of.config.controller_racks)
    sections: list[Section] = []
    if lost := of.given.get("lose"):
        loss = reduce(or_, [loss_of(record, kind, lost)])
        sections.append(
            Text("effects", "Effects", WHAT_IF_FORMS["text"](what_if(known, loss), record, of.now))
        )
    sections.append(
        Form(
            "whatif",
            "Lose something",
            "/whatif",
            [
                Field("cluster", "Cluster", name),
                Field("kind", "Lose", kind, choices=LOST),
                Field(
                    "lose",
                    "Its id or name",
                    of.given.get("lose", ""),
                    "ids: 1 or 1,2; a rack's name",
                ),
                Field("at", "At", of.given.get("at", ""), "empty: the newest state"),
            ],
        )
    )
    return Page(
        f"Loss in {name}",
        "/whatif",
        sections,
        cluster=name,
        links=[Link(name, address("/cluster", cluster=name))],
    )


# --- parts of pages ---


def _cluster(of: Asking) -> str:
    """The cluster that is given, or the only one. Raises QueryError for another, or for none."""
    return one_of(
        [each.cluster for each in reaches(of.ask, None)], of.given.get("cluster"), "history"
    )


def _window(of: Asking, known: Sequence[Reach], since: str) -> dict[str, str | None]:
    """The window of a page: the end of the record and so long before, unless it is given."""
    end = max((each.until for each in known if each.until is not None), default=of.now)
    until = moment(of.given["until"], of.now) if "until" in of.given else end
    begin = moment(of.given.get("since", since), until)
    return {"since": begin.isoformat(), "until": until.isoformat()}


def _required(of: Asking, name: str) -> str:
    if name not in of.given:
        raise QueryError(f"the address lacks {name}=")
    return of.given[name]


def _timeline(of: Asking, window: Mapping[str, str | None], own: Mapping[str, object]) -> pa.Table:
    asked = question("timeline", str(window["since"]), window["until"], own, of.now)
    return of.ask(asked.sql)


def _last(
    rows: pa.Table, title: str, window: Mapping[str, str | None], own: Mapping[str, object]
) -> Rows:
    return Rows(
        "timeline",
        title,
        _newest(rows),
        f"The newest first. {_part(len(rows), EVENTS)}",
        "Nothing happened in this window, as far as it is known.",
        more=_all("timeline", window, own),
    )


def _newest(rows: pa.Table) -> pa.Table:
    """The last rows, from the last one on."""
    return rows.take(pa.array(range(len(rows) - 1, max(len(rows) - EVENTS, 0) - 1, -1), pa.int64()))


def _first(rows: pa.Table) -> pa.Table:
    return rows.slice(0, MOST)


def _part(rows: int, most: int = MOST) -> str:
    return f"{most} of {rows:,} are shown." if rows > most else ""


def _answer(
    of: Asking, name: str, window: Mapping[str, str | None], own: Mapping[str, object]
) -> Rows:
    """A named question about one thing."""
    narrowing = {key: value for key, value in own.items() if key in filters_of(name)}
    rows = of.ask(question(name, str(window["since"]), window["until"], narrowing, of.now).sql)
    return Rows(
        name,
        about(name)[0],
        _first(rows),
        _part(len(rows)),
        "Nothing in this window, as far as it is known.",
        more=_all(name, window, narrowing),
    )


def _all(name: str, window: Mapping[str, str | None], own: Mapping[str, object]) -> str:
    return address(f"/ask/{name}", **window, **own)


def _figures(window: Mapping[str, str | None], own: Mapping[str, object]) -> Figures:
    return Figures("figures", "Figures", address("/figures", **window, **own))


def _reach(of: Asking, window: Mapping[str, str | None], own: Mapping[str, object]) -> list[str]:
    asked = question("timeline", str(window["since"]), window["until"], own, of.now)
    return reach(asked, of.ask, 1)
