"""Groups of a cluster in memory, asked for, and coordinators' entries for them."""

from typing import Any

import pyarrow as pa

from metadata_source.columns.polls import POLLS
from metadata_source.enrichment import Subject
from metadata_source.many_brokers import Broker
from tests.support.beside import answered
from tests.support.coordinators import Cluster


def asked(cluster: Cluster) -> tuple[str, list[list[dict[str, Any]]] | None]:
    """The outcome, and the rows as bronze holds them, without nulls."""
    brokers = tuple(Broker(number, address) for number, address in enumerate(cluster.nodes))
    outcome, rows = answered("groups", Subject(("groups",), [], [], brokers), cluster)
    if rows is None:
        return outcome, None
    array = pa.array(rows.values, POLLS.field("groups").type)
    array.validate(full=True)
    assert rows.topics is None
    return outcome, [[without_nulls(group) for group in row] for row in array.to_pylist()]


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def groups(cluster: Cluster, missing: str = "") -> dict[str, dict[str, Any]]:
    """The groups by id; `missing`: the outcome after `ok`."""
    outcome, rows = asked(cluster)
    assert outcome == f"ok{missing}"
    return {group.pop("group_id"): group for row in rows for group in row}


def entry(group_id: str, state: str, code: int = 0, **more: Any) -> dict[str, Any]:
    """One group in an answer of any type: what its type lacks is not written."""
    return {
        "error_code": code,
        "error_message": None,
        "group_id": group_id,
        "group_state": state,
        "group_epoch": 0,
        "assignment_epoch": 0,
        "assignor_name": "",
        "protocol_type": "consumer",
        "protocol_data": "",
        "topology": None,
        "topology_description": None,
        "topology_description_status": 0,
        "authorized_operations": 0,
        "members": [],
    } | more
