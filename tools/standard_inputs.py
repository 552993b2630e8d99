"""Make the inputs of tools/standard.py from seeds: `standard_inputs.py FILE SEEDS LOGS`."""

import pickle
import random
import sys
from collections.abc import Callable
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tests.unit.rules import test_cost, test_group, test_lag

from metadata_source.protocol import group_messages as group_specs
from metadata_source.protocol import offset_messages
from metadata_source.protocol.cluster_specs import RECORD_TYPES
from metadata_source.protocol.writing import write_message
from schemas import silver
from tests.support import cluster_records, group_messages, turns
from tests.support import offset_commits as commits
from tests.support.bronze_rows import bronze_rows
from tests.support.cluster_logs import RandomLog, controls
from tests.support.group_simulator import WHAT
from tests.support.histories import VERSIONS, VERSIONS_WITHOUT_IDS, RandomCluster
from tests.support.mutations import mutated, mutations
from tests.support.record_batches import CODECS, Batch, Record, batch_bytes

Row = dict[str, Any]
POLLS = 24
A_LOG = 400
"""Records, about."""
PARTITIONS = 4


def drawn(strategy: st.SearchStrategy[Any], count: int, number: int = 0) -> list[Any]:
    """Examples of a strategy, the same for the same number."""
    found: list[Any] = []

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(each: Any) -> None:
        found.append(each)

    draw()
    return found


def lake(number: int) -> Row:
    """Polls of a cluster, as rows of bronze, and how its rounds are cut."""
    chance = random.Random(number)
    alias, other = f"c{number}", "id-other" if number % 11 == 3 else None
    versions = VERSIONS_WITHOUT_IDS if number % 7 == 6 else VERSIONS
    answers = RandomCluster(alias, number, other, versions=versions).answers(POLLS)
    return {
        "alias": alias,
        "rows": bronze_rows(alias, answers),
        "kind": "redpanda" if number % 10 == 9 else "kafka",
        "most_polls": chance.choice((1, 3, 60)),
        "partitions_a_part": 3 if number % 3 == 0 else None,
    }


def recorded() -> dict[str, list[Row]]:
    """Polls of the clusters whose rounds are made in Spark, by alias.

    Tables that change cost time.
    """
    all_kinds = tuple(silver.ENRICHMENTS)
    clusters = {
        "a": (1, all_kinds),
        "b": (2, ("configs",)),
        "c": (9, ("configs",)),
        "d": (3, ("configs",)),
        "e": (4, ()),
    }
    return {
        alias: bronze_rows(alias, RandomCluster(alias, number, kinds=kinds).answers(POLLS))
        for alias, (number, kinds) in clusters.items()
    }


def life(number: int) -> Row:
    """A cluster that its log and polls tell of in turns, and when rounds are made."""
    chance, lived = random.Random(number), turns.lived(random.Random(number), 40)
    times = sorted({at for at, _ in lived.log} | {answer.scheduled_at for answer in lived.answers})
    kept = [at for at in times if chance.random() < 0.4 or at == times[-1]]
    return {"log": lived.log, "answers": [vars(each) for each in lived.answers], "times": kept}


def group(number: int) -> Row:
    """The coordinators' log of a group, and where its rounds are cut."""
    chance = random.Random(number)
    makers = list(test_group.MAKERS)
    made = test_group.MAKERS[makers[number % len(makers)]](chance.randint(1, 7))
    for _ in range(chance.randint(5, 25)):
        made.do((chance.choice(WHAT), chance.randint(0, 30)))
    made.settle()
    return {
        "rows": made.log.rows,
        "cuts": sorted(chance.choices(range(len(made.log.rows) + 1), k=5)),
    }


def lag(number: int) -> list[tuple[Row, Any]]:
    """Visits of a group, and what each tells of the offsets and ends of two topics."""
    chance, found, at = random.Random(number), [], 0
    said: Any = {("t", 0): (0, 0), ("t", 1): (5, 9), ("u", 0): (0, 3)}
    every = chance.choice((test_lag.MINUTE, test_lag.MINUTE // 6))
    for _ in range(chance.randint(5, 40)):
        at += chance.choice((1, 1, 1, 1, 2, 7))
        said = {key: moved(chance, *told) for key, told in said.items()}
        now: Any = {key: told for key, told in said.items() if chance.random() < 0.97}
        now = chance.choice(("failed: no answer", None)) if chance.random() < 0.05 else now
        topics = chance.choice((None,) * 9 + ('{"topics":["t"]}',))
        if topics is not None and isinstance(now, dict):
            now = {key: told for key, told in now.items() if key[0] == "t"}
        found.append((test_lag.visit(at, every, topic_filter=topics)._asdict(), now))
    return found


def moved(
    chance: random.Random, offset: int | None, end: int | None
) -> tuple[int | None, int | None]:
    """The offset and the end after a while: often more, at times less, at times not known."""
    offset = (offset or 0) + chance.choice((0, 0, 1, 3, 6))
    end = max(end or 0, (end or 0) + chance.choice((0, 0, 2, 4)))
    what = chance.random()
    if what < 0.1:
        return (
            (chance.choice((0, offset // 2)), end)
            if what < 0.03
            else (offset, chance.choice((None, end // 2)))
        )
    return min(offset, end), end


def costs(count: int) -> list[Any]:
    """Commits and rebalances of a group, what visits tell, and where rounds are cut."""
    visits = st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 60)), max_size=6)
    return drawn(st.tuples(test_cost.writings, visits, st.sets(st.integers(1, 40))), count)


# --- bytes of answers and of logs ---

DESCRIBES = {
    "classic": group_specs.DESCRIBE_GROUPS,
    "consumer": group_specs.CONSUMER_GROUP_DESCRIBE,
    "share": group_specs.SHARE_GROUP_DESCRIBE,
    "streams": group_specs.STREAMS_GROUP_DESCRIBE,
}


def answers(number: int) -> dict[int, tuple[int, bool, bytes]]:
    """By API key, what a broker answers about groups, in one version; whether that is flexible."""
    chance, found, listed = random.Random(number), {}, []
    for kind, api in DESCRIBES.items():
        version = max(api.lowest, api.response.last_version - number % 3)
        (described,) = (
            each for each in api.response.body.in_version(version) if each.name == "groups"
        )
        groups = drawn(group_messages.structs(described.type.of, version), 12, number)
        groups = [each | {"group_id": f"{kind}-{n}"} for n, each in enumerate(groups)]
        for each in groups:
            each["error_code"] = chance.choice((*[0] * 7, 16, 30, 69))
            listed.append(
                {"group_id": each["group_id"], "group_type": kind, "protocol_type": "consumer"}
            )
        found[api.response.api_key] = recorded_answer(api, version, {"groups": groups})
    listed = [each | {"group_state": chance.choice(("Stable", "Empty", "Dead"))} for each in listed]
    found[16] = recorded_answer(group_specs.LIST_GROUPS, 5, {"groups": listed})
    offsets = [
        {"group_id": each["group_id"], "topics": topics(chance), "error_code": 0} for each in listed
    ]
    found[9] = recorded_answer(offset_messages.OFFSET_FETCH, 8 + number % 2, {"groups": offsets})
    return found


def topics(chance: random.Random) -> list[Row]:
    """What a group has committed."""
    partitions = [
        {
            "partition_index": n,
            "committed_offset": chance.choice((-1, n, 7)),
            "error_code": chance.choice((0, 0, 0, 3)),
        }
        | {"committed_leader_epoch": 3, "metadata": chance.choice((None, "m"))}
        for n in range(chance.randint(1, 4))
    ]
    return [{"name": "t", "partitions": partitions}]


def recorded_answer(api: Any, version: int, fields: Row) -> tuple[int, bool, bytes]:
    """The version, whether it is flexible, and the bytes."""
    whole = {"throttle_time_ms": 0, "error_code": 0} | fields
    return version, api.response.flexible(version), write_message(api.response, version, whole)


def group_pool() -> list[tuple[bytes, bytes | None]]:
    """Keys and values of groups' records of each type and version, some damaged, and tombstones."""
    found: list[tuple[bytes, bytes | None]] = []
    for number, version in group_messages.RECORDS:
        for key, value in drawn(group_messages.records(number, version), 6, number):
            raw = group_messages.key_bytes(number, key)
            found += [(raw, group_messages.value_bytes(number, version, value)), (raw, None)]
    return found + damaged(
        found, lambda each, how: (each[0], None if each[1] is None else mutated(each[1], how))
    )


def cluster_pool() -> list[bytes]:
    """Records of controllers of each type and version, and some that are damaged."""
    found = [
        cluster_records.frame(number, version, values)
        for number, version in cluster_records.RECORDS
        for values in drawn(cluster_records.values_of(RECORD_TYPES[number], version), 6, number)
    ]
    return found + damaged(found, mutated)


def damaged(whole: list[Any], damage: Callable[[Any, Any], Any]) -> list[Any]:
    """A tenth of what is whole, otherwise."""
    some = whole[::10]
    return [damage(each, how) for each, how in zip(some, drawn(mutations, len(some)), strict=False)]


def group_log(
    number: int, pool: list[tuple[bytes, bytes | None]]
) -> dict[int, list[tuple[int, bytes]]]:
    """By partition, batches of a coordinators' log, with last offsets; in a third one is bad."""
    chance = random.Random(number)
    found: dict[int, list[tuple[int, bytes]]] = {}
    for partition in range(PARTITIONS):
        log: list[tuple[int, bytes]] = []
        for _ in range(A_LOG // PARTITIONS // 10):
            base = log[-1][0] + 1 + chance.choice((0, 0, 3)) if log else 0
            if chance.random() < 0.5:
                placed = commits.placed([written(chance) for _ in range(10)])
                whole = [
                    each._replace(offset=each.offset + base, ms=each.ms + base * 1_000)
                    for each in placed
                ]
                log += commits.batches(whole, chance.choice(CODECS), chance.randint(1, 6))
                continue
            records = [Record(n, chance.randint(0, 900), *chance.choice(pool)) for n in range(10)]
            batch = Batch(
                base, records, codec=chance.choice(CODECS), log_append_time=chance.random() < 0.2
            )
            log.append((base + 9, batch_bytes(batch)))
        found[partition] = log
    if number % 3 == 0:
        last, data = found[0][2]
        found[0][2] = last, data[:-1] + bytes([data[-1] ^ 1])
    return found


def written(chance: random.Random) -> commits.Written:
    """A commit, a removal, the end of a transaction, or another record."""
    what: Any = commits.Marker(chance.random() < 0.7)
    producer = chance.choice((-1, -1, -1, 1, 2))
    if producer < 0 or chance.random() < 0.7:
        offset, version = chance.choice((None, *range(1, 40))), chance.choice((1, 3, 4))
        what = commits.Commit(f"g{chance.randint(0, 3)}", chance.randint(0, 3), offset, version)
    elif chance.random() < 0.2:
        what = commits.Change(f"g{chance.randint(0, 3)}")
    return commits.Written(what, producer, chance.randint(0, 5_000), chance.choice((0, 0, 0, 2)))


def cluster_log(number: int, pool: list[bytes]) -> bytes:
    """A segment of a controllers' log: a random life, or all types of records; 1 of 5 damaged."""
    chance = random.Random(number)
    log = RandomLog(chance)
    batches: list[bytes] = []
    for of, group_ in groupby(
        log.grow(A_LOG // 6), lambda each: (each.leader_epoch, each.at, each.is_control)
    ):
        entries = list(group_)
        if any(other.offset - one.offset != 1 for one, other in pairwise(entries)):
            entries = entries[:1]
        records = [record_of(each, each.offset - entries[0].offset) for each in entries]
        ms = int(of[1].timestamp() * 1_000)
        times = {"base_timestamp": ms, "max_timestamp": ms, "codec": chance.choice(CODECS)}
        batches.append(
            batch_bytes(Batch(entries[0].offset, records, of[0], control=of[2], **times))
        )
    begin = log.entries[-1].offset + 1
    for n in range(0 if number % 2 else A_LOG // 10):
        records = [Record(each, 0, None, chance.choice(pool)) for each in range(10)]
        batches.append(batch_bytes(Batch(begin + 10 * n, records, 9)))
    data = b"".join(batches)
    return data[:-1] + bytes([data[-1] ^ 1]) if number % 5 == 4 else data


def record_of(entry: Any, delta: int) -> Record:
    """A record of a random life."""
    if not entry.is_control:
        return Record(
            delta, 0, None, cluster_records.frame(entry.number, entry.version, entry.values)
        )
    value = cluster_records.control_value(entry.number, entry.version, controls(entry))
    return Record(delta, 0, cluster_records.control_key(entry.number), value)


def main() -> None:
    """Write the file."""
    file, seeds, logs = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    groups_pool, controllers_pool = group_pool(), cluster_pool()
    made = {
        "recorded": recorded(),
        "lakes": [lake(number) for number in range(seeds)],
        "turns": [life(number) for number in range(seeds // 4)],
        "groups": [group(number) for number in range(seeds)],
        "lag": [lag(number) for number in range(seeds)],
        "cost": costs(4 * seeds),
        "polls": [answers(number) for number in range(logs)],
        "group_logs": [group_log(number, groups_pool) for number in range(logs)],
        "cluster_logs": [cluster_log(number, controllers_pool) for number in range(logs)],
    }
    file.write_bytes(pickle.dumps(made))


if __name__ == "__main__":
    main()
