"""The product's tables of messages and records, held against the definitions of a version of Kafka.

Kafka's jars hold them as JSON (``common/message`` and ``common/metadata``). No broker is needed.
"""

import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, count
from pathlib import Path
from typing import Any, Final

from metadata_source.protocol import cluster_specs, group_specs, transaction_specs
from metadata_source.protocol.spec import (
    METADATA_REQUEST,
    METADATA_RESPONSE,
    Array,
    Message,
    Struct,
)

Definition = dict[str, Any]

NOT_READ: Final = {"LegacyOffsetCommitKey", "LegacyOffsetCommitValue"}
"""Records of type 0: they are read as those of type 1, which have the same fields."""
LATER: Final = {"StreamsGroupTargetAssignmentResolvedTopicIds"}
"""Records of groups that no released Kafka writes yet. Once one does, they are compared."""
_HOLDERS: Final = (
    *("kafka-clients-", "kafka-metadata-", "kafka-group-coordinator-", "kafka-raft-"),
    "kafka-transaction-coordinator-",
)
"""Those of coordinators of shares are not read."""
_UNBOUNDED: Final = 2**15
_EMPTY: Final = {"string": "", "bytes": b"", "uuid": bytes(16), "bool": False}

_GROUP_RECORDS: Final = (*group_specs.RECORD_TYPES.values(), group_specs.OFFSET_COMMIT)
RECORDS: Final[tuple[Message, ...]] = (
    *cluster_specs.RECORD_TYPES.values(),
    *cluster_specs.CONTROL_TYPES.values(),
    *chain.from_iterable((each.key, each.value) for each in _GROUP_RECORDS),
    group_specs.SUBSCRIPTION,
    group_specs.ASSIGNMENT,
    transaction_specs.KEY,
    transaction_specs.VALUE,
)
"""All that is read from logs: in every version that Kafka has."""


METADATA: Final = (METADATA_REQUEST, METADATA_RESPONSE)
"""The messages of which the product has tables of its own."""


def definitions(jars: Iterable[Path]) -> dict[str, Definition]:
    """Return the definitions that these jars hold, by name."""
    found = {}
    for jar in jars:
        if not jar.name.startswith(_HOLDERS):
            continue
        with zipfile.ZipFile(jar) as files:
            for name in files.namelist():
                if re.fullmatch(r"common/(message|metadata)/\w+\.json", name):
                    # Kafka's JSON has comments, to the end of the line.
                    text = re.sub(r"(?m)(^|\s)//.*$", "", files.read(name).decode())
                    definition = json.loads(text)
                    found[definition["name"]] = definition
    return found


def compare(kafka: Mapping[str, Definition]) -> list[str]:
    """Return how the tables differ from definitions: keys, versions, each field of each version."""
    return [
        *chain.from_iterable(_record(each, kafka) for each in RECORDS),
        *chain.from_iterable(_metadata(each, kafka[each.name]) for each in METADATA),
        *_types(kafka),
    ]


def fields_of(definition: Definition, version: int) -> dict[str, str]:
    """Return the fields that Kafka's definition has in a version, by path: place, type, whether
    null is allowed; of tagged ones tag and default.
    """
    common = {each["name"]: each["fields"] for each in definition.get("commonStructs", ())}
    return dict(_of_kafka(definition["fields"], version, common))


def versions_of(definition: Definition, key: str = "validVersions") -> tuple[int, int]:
    """Return the first and last of a definition's range of versions; an empty range for none."""
    return _range(definition.get(key))


def _record(message: Message, kafka: Mapping[str, Definition]) -> Iterator[str]:
    definition = kafka.get(message.name)
    if definition is None:
        if message.name.removesuffix("Key").removesuffix("Value") not in LATER:
            yield f"{message.name}: not in Kafka"
        return
    ours, theirs = (0, message.last_version), versions_of(definition)
    if ours != theirs:
        yield f"{message.name}: versions {ours} here, {theirs} in Kafka"
    yield from _message(message, definition)


def _metadata(message: Message, definition: Definition) -> Iterator[str]:
    last = versions_of(definition)[1]
    if last != message.last_version:
        yield f"{message.name}: ends with version {message.last_version} here, with {last} in Kafka"
    yield from _message(message, definition)


def _message(message: Message, definition: Definition) -> Iterator[str]:
    # Of what the quorum writes for itself the type is not in the definition; -1 is of what has no
    # number.
    if definition.get("apiKey", message.api_key) != message.api_key:
        yield f"{message.name}: key {message.api_key} here, {definition['apiKey']} in Kafka"
    first, last = versions_of(definition)
    for version in range(first, min(last, message.last_version) + 1):
        is_flexible = _within(version, versions_of(definition, "flexibleVersions"))
        if message.flexible(version) != is_flexible:
            yield (
                f"{message.name} v{version}: flexible {message.flexible(version)} here, "
                f"{is_flexible} in Kafka"
            )
        ours = dict(_of_table(message.body, version))
        for path, here, there in different(ours, fields_of(definition, version)):
            yield f"{message.name} v{version}: {path} is {here} here, {there} in Kafka"


def different(ours: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield each path of fields that are not the same in both, and what each of them has there."""
    for path in dict.fromkeys((*ours, *theirs)):
        here, there = ours.get(path, "missing"), theirs.get(path, "missing")
        if here != there:
            yield path, here, there


def _types(kafka: Mapping[str, Definition]) -> Iterator[str]:
    """Yield Kafka's types of records that the product does not know."""
    known = {each.name for each in RECORDS} | NOT_READ
    known |= {*cluster_specs.COUNTED.values(), *cluster_specs.WITHOUT_FIELDS.values()}
    for name, each in kafka.items():
        if (
            each["type"] in {"metadata", "coordinator-key", "coordinator-value"}
            and name not in known
        ):
            yield f"{name}: type {each['apiKey']} in Kafka, unknown here"


def _of_table(struct: Struct, version: int, path: str = "") -> Iterator[tuple[str, str]]:
    tagged = (("tag", each) for each in struct.tagged_in(version).values())
    for place, each in chain(enumerate(struct.in_version(version)), tagged):
        inner, array = (each.type.of, "[]") if isinstance(each.type, Array) else (each.type, "")
        here = f"{path}{each.name.replace('_', '')}{array}"
        name = "struct" if isinstance(inner, Struct) else inner.value
        yield (
            here,
            _words(place, each.tag, name, each.default, is_nullable=each.nullable_in(version)),
        )
        if isinstance(inner, Struct):
            yield from _of_table(inner, version, f"{here}.")


def _of_kafka(
    fields: Iterable[Definition],
    version: int,
    common: Mapping[str, list[Definition]],
    path: str = "",
) -> Iterator[tuple[str, str]]:
    places = count()
    for each in fields:
        # A tagged field may say nothing else of its versions.
        if not _within(
            version, versions_of(each, "versions" if "versions" in each else "taggedVersions")
        ):
            continue
        inner, array = each["type"].removeprefix("[]"), "[]" * each["type"].startswith("[]")
        here = f"{path}{each['name'].lower()}{array}"
        inside = each.get("fields") or common.get(inner)
        name = "struct" if inside else {"records": "bytes"}.get(inner, inner)
        is_tagged = _within(version, versions_of(each, "taggedVersions"))
        is_nullable = _within(version, versions_of(each, "nullableVersions"))
        default = _default(each, common, version) if is_tagged else None
        yield (
            here,
            _words(
                "tag" if is_tagged else next(places),
                each.get("tag"),
                name,
                default,
                is_nullable=is_nullable,
            ),
        )
        if inside:
            yield from _of_kafka(inside, version, common, f"{here}.")


def _words(
    place: int | str, tag: int | None, name: str, default: object, *, is_nullable: bool
) -> str:
    null = " or null" if is_nullable else ""
    return (
        f"tag {tag} {name}{null}, else {default!r}" if place == "tag" else f"{place} {name}{null}"
    )


def _default(field: Definition, common: Mapping[str, list[Definition]], version: int) -> Any:
    """Return the value of an absent field (``FieldSpec.fieldDefault`` of Kafka's generator)."""
    told, kind = field.get("default"), field["type"]
    if told == "null":
        return None
    if kind.startswith("[]"):
        return []
    inside = field.get("fields") or common.get(kind)
    if inside:
        there = {
            each["name"]: each for each in inside if _within(version, versions_of(each, "versions"))
        }
        return {_snake_case(name): _default(each, common, version) for name, each in there.items()}
    if kind in _EMPTY:
        return _EMPTY[kind] if told is None else {"true": True, "false": False}.get(str(told), told)
    return int(told or 0)


def _snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _range(text: str | None) -> tuple[int, int]:
    if text is None or text == "none":
        return 0, -1
    first, dash, last = text.rstrip("+").partition("-")
    return int(first), _UNBOUNDED if text.endswith("+") else int(last if dash else first)


def _within(version: int, bounds: tuple[int, int]) -> bool:
    return bounds[0] <= version <= bounds[1]
