"""The state of a cluster as the lake of a configuration has it, for commands."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from jobs.configuration.config import Config
from kafka_metadata_history.answers.whatif.losses import with_racks
from kafka_metadata_history.answers.whatif.read import Record, read_record
from kafka_metadata_history.opened import opened


def recorded(
    config: Config,
    cluster: str | None,
    at: str | None,
    now: datetime,
    controller_racks: Mapping[int, str],
) -> tuple[Record, list[str]]:
    """Read the state as `read_record` does, with the racks that are configured; and what neither
    the configuration nor the lake's version lets anybody know, a clause each.
    """
    lake = opened(config.lake)
    record = read_record(lake.ask, cluster, at, now, controller_racks)
    lacks = [] if config.topic_filter is None else ["topics that the configuration leaves out"]
    if (version := lake.older()) is not None:
        lacks.append(f"all that a lake of version {version} lacks")
    known = with_racks(record.cluster, config.controller_racks)
    return replace(record, cluster=known, lacks=(*record.lacks, *lacks)), lacks
