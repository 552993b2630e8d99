"""Whether each cluster can be polled, and whether its user may ask what the configuration wants to know."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from metadata_source.errors import PollError
from metadata_source.look import TOPICS, look, report

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from metadata_source.look import State
    from metadata_source.options import Cluster, Options
    from metadata_source.probes import Permission

FEATURES: Final = {
    "configs": "min ISR",
    "reassignments": "reassignments",
    "quorum": "controller quorum",
    "fenced": "fenced brokers",
    "groups": "consumer groups",
    "groupLog": "rebalance history",
}
"""Question of `enrich`, or groupLog -> the feature whose permission it needs. The others need none of their own."""
_SIDE_BY_SIDE: Final = 16


@dataclass(frozen=True)
class Checked:
    """A cluster that was polled, or `problem`: why it could not be. `wanted`: features of the configuration."""

    cluster: Cluster
    wanted: Collection[str]
    problem: str | None = None
    state: State | None = None
    permissions: list[Permission] = field(default_factory=list)

    @property
    def missing(self) -> list[Permission]:
        """The permissions that the configuration needs and brokers refuse."""
        return [each for each in self.permissions if each.is_missing and each.feature in self.wanted]

    @property
    def is_good(self) -> bool:
        """Whether everything that is configured will be recorded."""
        return self.problem is None and not self.missing


def checked(options: Options, *, reads_log: bool) -> list[Checked]:
    """Check all clusters of a configuration, side by side. `reads_log`: whether the group log is to be read."""

    def one(cluster: Cluster) -> Checked:
        asked = options.polling[cluster.alias].enrich if cluster.alias in options.polling else ()
        wanted = {TOPICS, *(FEATURES[kind] for kind in asked if kind in FEATURES)}
        if reads_log:
            wanted.add(FEATURES["groupLog"])
        try:
            state, permissions = look(cluster, options.topic_filter, options.request_timeout_ms)
        except PollError as error:
            return Checked(cluster, wanted, f"{error.kind}: {error.problem}")
        return Checked(cluster, wanted, None, state, permissions)

    with ThreadPoolExecutor(_SIDE_BY_SIDE, "check") as side_by_side:
        return list(side_by_side.map(one, options.clusters))


def lines(each: Checked, *, whole: bool) -> Iterator[str]:
    """Yield what was found of a cluster. `whole`: with its state, and all that its user may ask."""
    alias = each.cluster.alias
    if each.problem is not None or each.state is None:
        yield f"{alias}: failed: {each.problem}"
        return
    topics = each.state.metadata.topics.num_rows
    latency = each.state.poll.latency_ms
    yield f"{alias}: polled in {latency:.1f} ms, {topics} topics{'' if each.is_good else '; permissions are missing'}"
    if whole:
        yield from (f"  {line}".rstrip() for line in report(each.state, each.permissions))
        yield ""
    for permission in each.permissions if whole else each.missing:
        if permission.is_missing:
            yield f"  {permission.feature}: {permission.answer}"
            if permission.acl is not None:
                yield f"    {acl_line(each.cluster, permission.acl)}"


def acl_line(cluster: Cluster, acl: str) -> str:
    """Return the command that allows it. A user of a certificate has a name that only brokers know."""
    servers = ",".join(f"{host}:{port}" for host, port in cluster.bootstrap_servers)
    principal = f"User:{cluster.sasl_username or 'PRINCIPAL'}"
    return f"kafka-acls --bootstrap-server {servers} --add --allow-principal {principal} {acl}"
