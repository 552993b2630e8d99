"""The pages of a topic, a broker and a group; of two times, and of a loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_metadata_history.answers.asof.asked import Comparison, Thing, state
from kafka_metadata_history.answers.asof.asked import difference as difference_of
from kafka_metadata_history.answers.asof.read import reaches
from kafka_metadata_history.answers.questions import QueryError
from kafka_metadata_history.answers.whatif.read import LOST
from kafka_metadata_history.answers.whatif.written import as_text
from kafka_metadata_history.recorded import without
from kafka_metadata_history.web.page import Page, Rows, Text, is_broker_id
from kafka_metadata_history.web.parts import (
    DAY,
    MOST,
    Timeline,
    cluster_of,
    form_of_loss,
    form_of_times,
    link_to,
    newest,
    part,
    required,
    window_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_metadata_history.web.page import Asking, Section

_SETTINGS: Final = ("config_set", "config_changed", "config_removed")
"""Changes of settings, as a timeline calls them."""


def topic(of: Asking) -> Page:
    """A topic: its partitions at a time, its settings over time, what happened to it."""
    asked = ["who_left_first", "leader_churn", "time_at_level", "reassignments", "availability"]
    asked.append("transactions")
    return _thing(of, Thing(topic=required(of, "topic")), "Partitions", asked)


def broker(of: Asking) -> Page:
    """A broker: what it leads, replicates and lacks at a time, what happened to it."""
    required(of, "broker")
    asked = ["broker_incidents", "broker_states", "away_from_preferred", "restart_steps"]
    asked += ["storage", "growth"]
    return _thing(of, thing_of(of), "State", asked)


def group(of: Asking) -> Page:
    """A group: its members at a time, its lag, its rebalances and their cost."""
    asked = ["lag", "rebalances", "rebalance_cost", "who_joined_and_left", "crash_loops"]
    return _thing(of, Thing(group=required(of, "group")), "Members", asked)


def thing_of(of: Asking) -> Thing:
    """Return the thing that an address names. Raises QueryError for several."""
    number = of.given.get("broker")
    if number is not None and not is_broker_id(number):
        raise QueryError(f"broker {number}: not a broker's id, a whole number")
    broker_id = None if number is None else int(number)
    return Thing(of.given.get("topic"), broker_id, of.given.get("group"))


def _thing(of: Asking, thing: Thing, title: str, asked: Sequence[str]) -> Page:
    """The page of one thing of a cluster: its state, then what named questions answer of it."""
    cluster = cluster_of(of)
    found = state(of.ask, of.given.get("at"), cluster, thing, of.now)
    known = reaches(of.ask, cluster)
    window = window_of(of, known, DAY, {"cluster": cluster, **thing.given})
    timeline = Timeline.of(window)
    changed = pc.is_in(timeline.events["what"], pa.array(_SETTINGS))
    sections: list[Section] = [
        timeline.slider(of, known),
        Rows(
            "state",
            title,
            found.rows.slice(0, MOST),
            part(len(found.rows)),
            "It was not there then.",
        ),
        *(window.rows(each) for each in asked),
        Rows(
            "settings",
            "Settings over time",
            newest(timeline.events.filter(changed)),
            empty="None changed in this window, as far as it is known.",
        ),
        window.figures(),
        timeline.section(),
    ]
    ((kind, name),) = thing.given.items()
    return Page(
        f"{kind.capitalize()} {name}",
        f"/{kind}",
        sections,
        cluster=cluster,
        lines=[*found.lines(), *timeline.lines],
        links=[link_to(cluster)],
    )


def difference(of: Asking) -> Page:
    """The differences between two times."""
    cluster = cluster_of(of)
    times = [of.given.get("from", DAY), *([of.given["to"]] if "to" in of.given else [])]
    asked = Comparison(times, cluster=cluster, thing=thing_of(of))
    found = difference_of(of.ask, asked, of.now, is_folded=True)
    return Page(
        f"Differences of {cluster}",
        "/diff",
        [
            Rows(
                "differences",
                " to ".join([*times, *([] if "to" in of.given else ["now"])]),
                found.rows.slice(0, MOST),
                f"Like differences are one row. {part(len(found.rows))}",
                "Nothing differs, as far as it is known.",
            ),
            form_of_times(cluster, of.given),
        ],
        cluster=cluster,
        lines=found.lines(),
        links=[link_to(cluster)],
    )


def whatif(of: Asking) -> Page:
    """The effects of the loss of brokers, of a rack or of controllers."""
    cluster, at = cluster_of(of), of.given.get("at")
    sections: list[Section] = [form_of_loss(cluster, of.given)]
    if "lose" in of.given:
        lost = [(of.given.get("kind", LOST[0]), of.given["lose"])]
        found, record = without(
            of.lake(), of.config, lost, cluster, at, now=of.now, controller_racks={}
        )
        sections.insert(0, Text("effects", "Effects", as_text(found, record, of.now)))
    return Page(f"Loss in {cluster}", "/whatif", sections, cluster, links=[link_to(cluster)])
