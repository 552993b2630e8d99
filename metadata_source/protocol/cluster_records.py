"""Records of ``__cluster_metadata``: bytes in, Arrow out, one row a record.

A record of controllers is a frame (``MetadataRecordSerde``: frame version, type and version as
unsigned varints, then the fields); a control record is one of the quorum's own. Names are Kafka's,
or those that history of Metadata has; 16 bytes are a UUID as Kafka prints it, zeros are null. A
field that a change leaves as it was is null.

Nothing else of a record is kept: not its bytes, nor any of them in an error. The log holds
passwords as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.columns import OF_RECORDS, TEXT
from metadata_source.columns.cluster_log import LEADER_VOTERS, RECORDS, VOTER
from metadata_source.protocol.cluster_specs import (
    CONTROL_TYPES,
    COUNTED,
    RECORD_TYPES,
    WITHOUT_FIELDS,
)
from metadata_source.protocol.columnar import read_batch, scattered
from metadata_source.protocol.kept_configs import KEPT_CONFIGS
from metadata_source.protocol.nested_casts import each_entry, fields_of, filled, without
from metadata_source.protocol.row_builder import RowBuilder
from metadata_source.protocol.vectors import contents, leading_int16s, varints

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metadata_source.protocol.nested_casts import Fields
    from metadata_source.protocol.spec import Message
    from metadata_source.protocol.vectors import Positions


_KEPT_CONFIGS: Final = pa.array(
    [f"{resource} {name}" for resource, names in KEPT_CONFIGS.items() for name in names]
)

_FRAME_VERSION: Final = 1
_FRAME_BYTES: Final = 3
"""Versions of frames, types and versions are a byte each wherever there is a table."""
_LAST_NUMBER: Final = 0x7FFF
_UNCHANGED_LEADER, _UNCHANGED_RECOVERY = -2, -1


def decode_records(records: pa.RecordBatch) -> pa.RecordBatch:
    """Return one row a record, in their order; schema: `RECORDS`. Bytes never raise.

    `records` have the columns of `record_batches.RECORDS`. A type that is counted, or has no
    fields, has its name, version and size. An unknown type or version has an `error` beside these,
    and so has a record whose bytes are not what they should be: it says where, and holds none of
    them.
    """
    return _Decoding(records).rows()


@dataclass(frozen=True, slots=True)
class _Tables:
    """Records of controllers, or of the quorum: names and tables by type, where a value begins
    after its frame, and by type the column, with the function that makes its fields of those of the
    value.
    """

    names: Mapping[int, str]
    messages: Mapping[int, Message]
    start: int
    decoders: Mapping[int, tuple[str, Callable[[Fields], Fields | pa.Array]]]


class _Decoding:
    """Decodes some records, those of one type and version together."""

    def __init__(self, records: pa.RecordBatch) -> None:
        self._records = records
        self._values: pa.BinaryArray = records["value"]
        self._rows = RowBuilder(RECORDS)

    def rows(self) -> pa.RecordBatch:
        """Return all of them."""
        rows = np.arange(len(self._values))
        is_control = self._records["is_control"].to_numpy(zero_copy_only=False)
        self._decode_frames(rows[~is_control])
        self._decode_controls(rows[is_control])
        for name in OF_RECORDS.names:
            self._rows.put(name, rows, self._records[name])
        self._rows.put("size", rows, pc.binary_length(self._values))
        return self._rows.made(len(rows))

    def _decode_frames(self, rows: Positions) -> None:
        data, at, ends = contents(self._values.take(pa.array(rows)))
        numbers = []
        good = np.ones(len(rows), dtype=np.bool_)
        for _ in range(_FRAME_BYTES):
            found, at, whole = varints(data, at)
            good &= whole & (at <= ends) & (found <= _LAST_NUMBER)
            numbers.append(found)
        frame_versions, types, versions = numbers
        good &= frame_versions == _FRAME_VERSION
        self._rows.fail(
            rows[~good], f"no frame of version {_FRAME_VERSION} with a type and a version"
        )
        self._decode(_OF_CONTROLLERS, rows[good], types[good], versions[good])

    def _decode_controls(self, rows: Positions) -> None:
        keys = self._records["key"].take(pa.array(rows))
        key_versions, _ = leading_int16s(keys)
        types, has_type = leading_int16s(pc.binary_slice(keys, 2, 4))
        versions, has_version = leading_int16s(self._values.take(pa.array(rows)))
        good = (key_versions >= 0) & has_type & has_version
        self._rows.fail(rows[~good], "a control record without a type or a version")
        self._decode(_OF_QUORUM, rows[good], types[good], versions[good])

    def _decode(
        self, tables: _Tables, rows: Positions, types: Positions, versions: Positions
    ) -> None:
        self._rows.put("type", rows, pa.array(types))
        self._rows.put("version", rows, pa.array(versions))
        unknown = np.ones(len(rows), dtype=np.bool_)
        for number in set(np.unique(types).tolist()) & set(tables.names):
            of_type = types == number
            unknown &= ~of_type
            self._rows.put(
                "name", rows[of_type], pa.repeat(tables.names[number], int(of_type.sum()))
            )
            if number in tables.messages:
                self._decode_type(tables, tables.messages[number], rows[of_type], versions[of_type])
        for row, number in zip(rows[unknown].tolist(), types[unknown].tolist(), strict=True):
            self._rows.errors[row] = f"unknown record type {number}"

    def _decode_type(
        self, tables: _Tables, message: Message, rows: Positions, versions: Positions
    ) -> None:
        last = message.last_version
        for version in range(last + 1):
            self._decode_version(tables, message, version, rows[versions == version])
        unknown = (versions < 0) | (versions > last)
        for row, version in zip(rows[unknown].tolist(), versions[unknown].tolist(), strict=True):
            self._rows.errors[row] = f"unknown version {version}, known are 0 to {last}"

    def _decode_version(
        self, tables: _Tables, message: Message, version: int, rows: Positions
    ) -> None:
        if not len(rows):
            return
        found, errors = read_batch(
            self._values.take(pa.array(rows)), message, version, start=tables.start
        )
        for index, error in errors.items():
            self._rows.errors[int(rows[index])] = (
                f"{error.path} at byte {error.offset} is not what it should be"
            )
        whole = np.delete(rows, list(errors))
        if message.api_key in tables.decoders:
            column, decode = tables.decoders[message.api_key]
            self._rows.put(column, whole, decode(fields_of(found.drop_null())))


def _as_they_are(values: Fields) -> Fields:
    return values


def _topic(values: Fields) -> Fields:
    return {"topic": values["name"], "topic_id": values["topic_id"]}


def _without_elr(values: Fields) -> Fields:
    return {"topic": values["topic_name"]}


def _partition(values: Fields) -> Fields:
    return values | {"partition": values["partition_id"], "elr": values["eligible_leader_replicas"]}


def _partition_change(values: Fields) -> Fields:
    return _partition(values) | {
        "leader": without(_UNCHANGED_LEADER, values["leader"]),
        "leader_recovery_state": without(_UNCHANGED_RECOVERY, values["leader_recovery_state"]),
    }


def _broker_change(values: Fields) -> Fields:
    """Return a change as Kafka replays it: no log directories are unchanged ones too."""
    return values | {
        "fenced": without(0, values["fenced"]),
        "in_controlled_shutdown": without(0, values["in_controlled_shutdown"]),
        "log_dirs": filled(values["log_dirs"]),
    }


def _fenced(change: int) -> Callable[[Fields], Fields]:
    def decode(values: Fields) -> Fields:
        fenced = pa.repeat(change, len(values["id"]))
        return {"broker_id": values["id"], "broker_epoch": values["epoch"], "fenced": fenced}

    return decode


def _config(values: Fields) -> Fields:
    """Return settings with the values that are kept, copied: `if_else` may keep others' bytes."""
    setting = pc.binary_join_element_wise(values["resource_type"].cast(TEXT), values["name"], " ")
    is_kept = pc.is_in(setting, _KEPT_CONFIGS)
    rows = np.flatnonzero(is_kept.to_numpy(zero_copy_only=False))
    return values | {
        "value": scattered(len(setting), TEXT, [(rows, values["value"].filter(is_kept))]),
        "is_removed": values["value"].is_null(),
    }


def _feature(values: Fields) -> Fields:
    return {"name": values["name"], "level": values["feature_level"]}


def _leader_change(values: Fields) -> Fields:
    voters = {
        name: each_entry(values[name], LEADER_VOTERS, _leader_voters)
        for name in ("voters", "granting_voters")
    }
    return {"leader": values["leader_id"], **voters}


def _leader_voters(voters: pa.StructArray) -> Fields:
    fields = fields_of(voters)
    return fields | {"directory_id": fields["voter_directory_id"]}


def _voters(values: Fields) -> pa.Array:
    return each_entry(values["voters"], pa.list_(VOTER), _with_versions)


def _with_versions(voters: pa.StructArray) -> Fields:
    return _leader_voters(voters) | fields_of(voters.field("kraft_version_feature"))


def _only(name: str) -> Callable[[Fields], pa.Array]:
    return lambda values: values[name]


_FENCE, _UNFENCE = 1, -1
"""``BrokerRegistrationFencingChange``."""
_OF_CONTROLLERS: Final = _Tables(
    COUNTED | WITHOUT_FIELDS | {number: message.name for number, message in RECORD_TYPES.items()},
    RECORD_TYPES,
    _FRAME_BYTES,
    {
        0: ("broker", _as_they_are),
        1: ("broker_change", _as_they_are),
        2: ("topic", _topic),
        3: ("partition", _partition),
        4: ("config", _config),
        5: ("partition_change", _partition_change),
        7: ("broker_change", _fenced(_FENCE)),
        8: ("broker_change", _fenced(_UNFENCE)),
        9: ("topic", _as_they_are),
        12: ("feature", _feature),
        15: ("producer_ids", _as_they_are),
        17: ("broker_change", _broker_change),
        21: ("zk_migration_state", _only("zk_migration_state")),
        23: ("transaction", _as_they_are),
        25: ("transaction", _as_they_are),
        27: ("controller", _as_they_are),
        28: ("topic", _without_elr),
        29: ("controller", _as_they_are),
    },
)
_OF_QUORUM: Final = _Tables(
    {number: message.name for number, message in CONTROL_TYPES.items()},
    CONTROL_TYPES,
    0,
    {
        2: ("leader_change", _leader_change),
        3: ("last_contained_log_timestamp_ms", _only("last_contained_log_timestamp")),
        5: ("kraft_version", _only("kraft_version")),
        6: ("voters", _voters),
    },
)
