"""A first configuration: of one cluster, which was polled, with the questions that its user may
ask.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import yaml

from kafka_metadata_history.check import FEATURES, LOGS, acl_line
from metadata_source.options import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafka_metadata_history.check import Checked
    from metadata_source.options import Cluster, Options
    from metadata_source.probes import Permission

BEATS: Final = {
    "configs": "5m",
    "reassignments": "1m",
    "quorum": "1m",
    "fenced": "1m",
    "groups": "30s",
}
"""Question that needs a permission -> its interval."""
INTERVAL: Final = "30s"


def tried_options(alias: str, cluster: Mapping[str, str]) -> Options:
    """Return the options by which a new cluster is polled, asking all. Raises OptionsError."""
    given = {
        "clusters": json.dumps({alias: cluster}),
        "enrich": ",".join(BEATS),
        "pollInterval": INTERVAL,
    }
    return parse(given, "stream")


def written(lake: str, cluster: Mapping[str, str], found: Checked) -> str:
    """Return the configuration as YAML. A question that brokers refuse is a comment with the
    command that allows it.
    """
    refused = {each.feature: each for each in found.missing}
    asked = {kind: beat for kind, beat in BEATS.items() if FEATURES[kind] not in refused}
    head = {
        "lake": lake,
        "clusters": {found.cluster.alias: dict(cluster)},
        "poll": {"pollInterval": INTERVAL},
    }
    head["poll"]["enrich"] = asked or "none"  # type: ignore[index]
    for key in LOGS:
        if FEATURES[key] not in refused:
            head[key] = {"startingOffsets": "earliest"}
    return "".join(
        (
            (
                "# Where the tables are, the clusters, how they are polled. docs/configuration.md "
                "explains the keys.\n"
            ),
            yaml.safe_dump(head, sort_keys=False, width=1_000),
            *(f"# {line}\n" for each in refused.values() for line in _refused(found.cluster, each)),
        )
    )


def _refused(cluster: Cluster, permission: Permission) -> Iterator[str]:
    kind = next(kind for kind, each in FEATURES.items() if each == permission.feature)
    where = (
        f"{kind}: {{startingOffsets: earliest}}"
        if kind in LOGS
        else f"poll.enrich.{kind}: {BEATS[kind]}"
    )
    yield f"Brokers refuse what `{where}` asks. To allow it:"
    if permission.acl is not None:
        yield f"  {acl_line(cluster, permission.acl)}"
