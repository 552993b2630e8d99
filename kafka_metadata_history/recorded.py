"""The state of a cluster as a lake has it, and what a loss would do to it: for commands, Python and
agents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import reduce
from operator import or_

from jobs.configuration.config import Config
from kafka_metadata_history.answers.asking import Asked
from kafka_metadata_history.answers.questions import QueryError
from kafka_metadata_history.answers.whatif.losses import with_racks
from kafka_metadata_history.answers.whatif.read import LOST, Record, loss_of, read_record
from kafka_metadata_history.answers.whatif.rules import WhatIf, what_if
from metadata_source.text import did_you_mean, printable


def recorded(
    lake: Asked,
    config: Config | None,
    cluster: str | None,
    at: str | None,
    *,
    now: datetime,
    controller_racks: Mapping[int, str],
) -> tuple[Record, list[str]]:
    """Read the state as `read_record` does, with the racks that are configured; and what neither
    the configuration nor the lake's version lets anybody know, a clause each. `config`: None: there
    is none.
    """
    record = read_record(lake.ask, cluster, at, now, controller_racks)
    is_narrow = config is not None and config.topic_filter is not None
    lacks = ["topics that the configuration leaves out"] if is_narrow else []
    if (version := lake.older()) is not None:
        lacks.append(f"all that a lake of version {version} lacks")
    racks = {} if config is None else config.controller_racks
    known = with_racks(record.cluster, racks)
    return replace(record, cluster=known, lacks=(*record.lacks, *lacks)), lacks


def without(
    lake: Asked,
    config: Config | None,
    lost: Sequence[tuple[str, str]],
    cluster: str | None,
    at: str | None,
    *,
    now: datetime,
    controller_racks: Mapping[int, str],
) -> tuple[WhatIf, Record]:
    """Return what a loss does, and the state that it does it to. `lost`: of LOST and its name, as
    `loss_of` takes them; more of them add up. Raises QueryError for what the cluster did not have.
    """
    if not lost:
        raise QueryError(f"--lose: name what is lost, {' or '.join(LOST)} and which")
    for what, named in lost:
        if what not in LOST:
            hint = did_you_mean(what, LOST, f"one of {', '.join(LOST)}")
            raise QueryError(printable(f"--lose {what} {named}: {hint}"))
    record, _ = recorded(lake, config, cluster, at, now=now, controller_racks=controller_racks)
    loss = reduce(or_, (loss_of(record, what, named) for what, named in lost))
    return what_if(record.cluster, loss), record
