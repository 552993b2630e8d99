"""Incidents: rows of gold of all sources that belong together, and what can be sent of them.

Rows of these tables alone may be revised once another source has more to say.
"""

from schemas.gold import BEGAN, ID, UPDATED_AT
from schemas.silver import CLUSTER_COLUMNS
from schemas.table import PART, Column, Table, columns, part_column

SEVERITIES = ("info", "ticket", "page")
"""From the mildest to the worst."""
SURENESS = ("exact", "bounded", "inferred")
"""From the surest on."""
EVENT_NAMES = (
    "baseline",
    "opened",
    "worse",
    "eased",
    "ended",
    "reopened",
    "merged",
    "revised",
    "withdrawn",
)

_SEVERITY = Column(
    "severity",
    "string",
    "page | ticket | info, by its findings and for how long they last: docs/incidents.md.",
    nullable=False,
)
_ENDED = columns("""
    ended_after timestamp -- It ended after this; null while it lasts.
    ended_before timestamp -- It had ended by this; null while it lasts.
""")
_IN = f"({', '.join(map(repr, SEVERITIES))})"
_HURT = columns("""
    offline bigint NOT NULL -- Partitions of it that are offline now.
    under_min_isr bigint NOT NULL -- Partitions of it that are under min ISR now, and have a leader.
""")

INCIDENTS = Table(
    schema="gold",
    name="incidents",
    comment=(
        "One row for each incident: a broker missing, a partition offline, ..., and all that "
        "follows from it by the rules of gold.incident_links. Folded over gold of all sources, so "
        "a source that comes later may revise a cause."
    ),
    columns=(
        Column("id", "string", "Given when it opened; never changes.", nullable=False),
        *CLUSTER_COLUMNS,
        *columns("""
            kind string NOT NULL -- The finding that opened it: broker_missing | partition_offline |
                under_min_isr | quorum_lost | quorum_flapping | stale_broker | unclean_election |
                group_stuck | group_stopped | stuck_transaction | log_dir_failed. Of findings beside
                incidents:
                one_in_sync (a single replica in the ISR for ten minutes) | crash_loop |
                group_behind (for ten minutes, by Burrow's rules) | lone_setting (a broker is set
                otherwise than all others) | throttle_left (of a reassignment that is over) |
                shared_rack (two replicas in one rack, though there are as many racks).
            class string NOT NULL -- incident | maintenance (a controlled stop, or brokers that were
                down one after the other as in a rolling restart) | finding (one beside incidents).
        """),
        _SEVERITY,
        *BEGAN,
        *_ENDED,
        *columns("""
            end_reason string -- recovered | removed (the broker is gone for a day, and no replica
                is missed: inferred) | merged (merged_into says where) | withdrawn (another source
                showed that it was none); null while it lasts.
            cause string NOT NULL -- The first cause: broker_down | broker_hung (its ISRs lost it
                before it was missing) | controlled_shutdown | rack | reassignment | log_dir_failed
                | leader_stalled | lagging | config_changed | quorum | stale | transaction | group |
                unknown.
            cause_of string -- Who that is: a broker id, a rack, a group, a topic; null where there
                is none.
            cause_sureness string -- exact | bounded | inferred; null if the cause is unknown.
            alternatives array<string> NOT NULL -- Other causes that the rules allow, the likeliest
                first: cause, a colon, and who.
            began_controlled boolean -- It began with a controlled shutdown, a reassignment or a
                preferred election; null where no source can tell.
            is_escalated boolean NOT NULL -- It began controlled, and was not over after 15 minutes,
                or took a partition offline or under min ISR.
            brokers array<int> NOT NULL -- The brokers that are or were missing, stale, with a
                failed directory, or out of ISRs in it, sorted.
            group_ids array<string> NOT NULL -- The groups in it, sorted, at most 100.
            topics array<string> NOT NULL -- Topics in it, an example of each finding, at most 100.
            steps int NOT NULL -- Brokers that were missing one after the other.
            worst_level string -- The worst level of its partitions so far: under_replicated |
                at_min_isr | under_min_isr | offline; null if it has none.
        """),
        *_HURT,
        *columns("""
            offline_most bigint NOT NULL -- The most of its partitions that were offline at a time.
            under_min_isr_most bigint NOT NULL -- The most that were under min ISR at a time.
            out_of_sync_most bigint NOT NULL -- The most that lacked a replica in the ISR at a time.
            reopened int NOT NULL -- How often it came back within 15 minutes.
            merged_into string -- The incident that it is part of; else null.
            overlaps array<string> NOT NULL -- Incidents of the cluster at the same time, sorted.
        """),
        UPDATED_AT,
        Column(
            "is_live",
            "boolean",
            "A later round may still change the row: it lasts, or may come back, or a source may "
            "still revise it.",
            nullable=False,
        ),
        part_column(),
    ),
    key=("id",),
    constraints={
        "severity_known": f"severity IN {_IN}",
        "class_known": "class IN ('incident', 'maintenance', 'finding')",
        "bounds_in_order": "began_after IS NULL OR began_after <= began_before",
        "end_is_whole": "(end_reason IS NULL) = (ended_before IS NULL)",
    },
    partition_by=("is_live", PART),
    live="is_live",
    over=("began_before", "ended_before"),
)

INCIDENT_LINKS = Table(
    schema="gold",
    name="incident_links",
    comment=(
        "One row for each finding of an incident, and the rule that ties it to the finding that it "
        "follows from. Rows of gold that are alike are one finding: of one kind, and of one "
        "broker, group or leader, with no more than two minutes between them."
    ),
    columns=(
        Column("id", "string", "Of the finding.", nullable=False),
        Column("incident_id", "string", "gold.incidents.id.", nullable=False),
        *CLUSTER_COLUMNS,
        *columns("""
            kind string NOT NULL -- Kind of the finding: docs/incidents.md lists them.
            broker_id int -- The broker that it is about: missing, stale, out of ISRs, leader or
                coordinator before; null where it is about none.
            leader int -- The leader that dropped a broker from ISRs; null of other findings.
            group_id string -- The group that it is about; null where it is about none.
            rack string -- Of a broker that is missing: its rack; else null.
            brokers array<int> NOT NULL -- All brokers that it involves, sorted.
            topic string -- A topic that it is about, one of Kafka's own only if there is no other.
            partitions bigint NOT NULL -- Partitions that it is about: the most at a time, or all if
                it has no duration. 0 where it is about none.
            partitions_now bigint NOT NULL -- Those of now; 0 once it ended.
            number bigint -- Of a pause: ms, at least. Of lag: records, at most. Of elections of
                controllers: how many. Else null.
        """),
        *BEGAN,
        *_ENDED,
        *columns("""
            source string NOT NULL -- polls | log; of both: the one with the closer begin.
            cause string -- Cause or reason, as the rows of gold have it; else null.
            is_controlled boolean -- Whether a controller announced it; null where no source can
                tell.
            rule string -- The rule that ties it: docs/incidents.md; null of the first cause.
            from_id string -- The finding that it follows from; null of the first cause.
            sureness string -- exact (both are records of a log, and Kafka does the one for the
                other) | bounded (the bounds of both allow it) | inferred (the rule itself
                is a guess, or a bound is missing); null of the first cause.
            delay_ms_min bigint -- It began at least so long after the other, ms; null if a bound is
                missing. Negative: before it.
            delay_ms_max bigint -- At most, ms.
        """),
        UPDATED_AT,
        Column("is_live", "boolean", "As of its incident.", nullable=False),
        part_column(),
    ),
    key=("id",),
    constraints={"sureness_known": f"sureness IS NULL OR sureness IN {SURENESS}"},
    partition_by=("is_live", PART),
    live="is_live",
    replaced_by=("incident_id",),
    none_without="kind",
    over=("began_before", "ended_before"),
)

EVENTS = Table(
    schema="gold",
    name="events",
    comment=(
        "Events of incidents and of findings beside them, append-only, in the order in which they "
        "were known: to be streamed, sent and counted."
    ),
    columns=(
        ID,
        *CLUSTER_COLUMNS,
        *columns(f"""
            event string NOT NULL -- {" | ".join(EVENT_NAMES)}. baseline: what lasted when
                incidents of the cluster were first made, as one row.
            incident_id string -- gold.incidents.id; null of a baseline.
            kind string NOT NULL -- As of its incident.
        """),
        _SEVERITY,
        *columns("""
            what string NOT NULL -- A broker, a rack, a group or topics: who it is about.
            happened_after timestamp -- It happened after this; null where nothing bounds it.
            happened_before timestamp NOT NULL -- It had happened by this.
            known_at timestamp NOT NULL -- When the round was made that found it.
        """),
        *_HURT,
        *columns("""
            detail string -- The worst level, the cause before, the incident that it became part of,
                how many there were at a baseline; else null.
        """),
    ),
    key=("id",),
    constraints={"severity_known": f"severity IN {_IN}", "event_known": f"event IN {EVENT_NAMES}"},
    cluster_by=("known_at",),
    over=("known_at",),
)

TABLES = (INCIDENTS, INCIDENT_LINKS, EVENTS)
