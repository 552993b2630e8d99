"""The pages of the fleet, of a cluster and of an incident."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from jobs.configuration.severities import NOTHING_RECORDED
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
from kafka_metadata_history.answers.metrics.read import bad_seconds
from kafka_metadata_history.answers.questions import shown
from kafka_metadata_history.answers.thresholds import span
from kafka_metadata_history.web.page import Link, Page, Rows, Text, address
from kafka_metadata_history.web.parts import (
    DAY,
    MOST,
    Timeline,
    Window,
    cluster_of,
    form_of_loss,
    form_of_times,
    part,
    window_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_metadata_history.answers.incidents.records import Incident
    from kafka_metadata_history.web.page import Asking

_DAYS: Final = timedelta(days=6)
"""Before today."""
_MARGIN: Final = timedelta(minutes=2)
"""Of an incident's figures, before and after."""


def fleet(of: Asking) -> Page:
    """Each cluster's state now, open incidents, availability of seven days, the worst first."""
    cluster = of.given.get("cluster")
    state = AsOf.of(of.ask, reaches(of.ask, cluster), None)
    rows, lacks = show.clusters(state, of.now)
    recorded = read_recorded(of.ask, cluster)
    open_ = read_open(of.ask, cluster)
    counts = Counter(each.cluster for each in open_)
    names = rows["cluster"].to_pylist()
    spent = _availability(of)
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


def _availability(of: Asking) -> dict[str, dict[str, float | None]]:
    """For reads and for writes: cluster -> the least availability of seven days, in percent."""
    rows = bad_seconds(of.ask, of.now - _DAYS)
    return {
        f"available_for_{kind}": {
            row["cluster"]: round(100 * (1 - row[f"{kind}_max"] / row["seconds"]), 4)
            for row in rows
            if row["seconds"] and row[f"{kind}_max"] is not None
        }
        for kind in ("reads", "writes")
    }


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
    name, at = cluster_of(of), of.given.get("at")
    known = reaches(of.ask, name)
    state = AsOf.of(of.ask, known, time_of(at, of.now))
    rows, lacks = show.clusters(state, of.now)
    partitions = show.not_well(state)
    open_ = read_open(of.ask, name)[:MOST]
    window = window_of(of, known, DAY, {"cluster": name})
    timeline = Timeline.of(window)
    return Page(
        name,
        "/cluster",
        [
            timeline.slider(of, known),
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
                part(len(partitions)),
                "All partitions are in sync.",
            ),
            _incidents("open", "Open incidents now", open_, "No incident is known to be open."),
            *(window.rows(each) for each in ("stuck_transactions", "transactional_ids")),
            window.figures(),
            window.rows("controllers", "Active controllers"),
            timeline.section(),
            form_of_times(name, {}),
            form_of_loss(name, {} if at is None else {"at": at}),
        ],
        cluster=name,
        lines=[*state.lines(of.now), *timeline.lines],
    )


def incident(of: Asking) -> Page:
    """An incident: its story, the chain of its findings, and the figures of its time."""
    recorded = read_recorded(of.ask, None)
    account = read_account(of.ask, of.given["id"], of.given.get("cluster"), recorded)
    found = account.incident
    day = words.day_of(*(each.began_before for each in account.findings))
    heads = ("when", "finding", "why")
    chain = [
        dict(zip(heads, story.told(each, day), strict=True)) for each in account.findings[:MOST]
    ]
    began = found.began_after or found.began_before
    ended = found.ended_before or account.recorded.until or found.began_before
    since, until = (began - _MARGIN).isoformat(), (ended + _MARGIN).isoformat()
    window = Window(of, since, until, {"cluster": found.cluster})
    then = {"at": found.began_before.isoformat(), "since": since, "until": until}
    return Page(
        words.capital(words.of_incident(found)),
        "/incident",
        [
            Text("story", "Story", written.as_text(account, of.now, None)),
            Rows(
                "chain",
                "Chain",
                pa.Table.from_pylist(chain, pa.schema([(each, pa.string()) for each in heads])),
                f"In order of time; why each follows, and how sure that is. "
                f"{part(len(account.findings))}",
                "No finding is recorded.",
            ),
            window.figures(),
            window.rows("incident_links", "Rows behind each", incident=found.id),
            Timeline.of(window).section("Timeline of the cluster meanwhile"),
        ],
        cluster=found.cluster,
        lines=[story.sentence(found), story.record_age(account, of.now)],
        links=[
            Link("The cluster when it began", address("/cluster", cluster=found.cluster, **then))
            for each in reaches(of.ask, None)
            if each.cluster == found.cluster and each.has(found.began_before)
        ],
    )
