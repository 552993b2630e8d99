"""What the threads of a task hand on, without Spark and without Kafka."""

import itertools
import json
import sys
import threading
import time
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from metadata_source import connections, poller
from metadata_source.columns.polls import POLLS
from metadata_source.datasource import _read_on_schedule, _StreamReader, _tasks
from metadata_source.errors import OptionsError, PollError
from metadata_source.options import parse
from metadata_source.protocol.spec import METADATA_RESPONSE
from metadata_source.protocol.wire import write_message
from metadata_source.schedule import Offset, plan
from metadata_source.threads import _QUEUED, in_threads
from metadata_source.transport import Answer
from tests.metadata_messages import cluster as usual_answer
from tests.support.beside import outcomes_of

CLUSTERS = ("a", "b", "c")


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("kafka_metadata")]


def test_nothing_is_made_far_ahead_of_whoever_takes_it():
    made: list[str] = []

    def rows(cluster):
        for _ in range(20):
            made.append(cluster)
            yield cluster

    batches = in_threads(CLUSTERS, rows, threading.Event())
    for taken in range(1, 10):
        next(batches)
        time.sleep(0.02)
        assert len(made) <= taken + _QUEUED + len(CLUSTERS)
    assert len(made) >= taken + _QUEUED
    assert len(list(batches)) == 20 * len(CLUSTERS) - taken
    assert threads() == []


def test_whoever_stops_taking_ends_all_threads():
    """Spark drops a read that it cancels: some of its threads wait for room then, some for the next poll."""
    stopped = threading.Event()

    def rows(cluster):
        while not stopped.is_set():
            yield cluster
            if cluster == "a":
                stopped.wait()

    batches = in_threads(CLUSTERS, rows, stopped)
    next(batches)
    time.sleep(0.05)  # the queue is full
    assert len(threads()) == len(CLUSTERS)
    begin = time.monotonic()
    batches.close()
    assert time.monotonic() - begin < 0.5
    assert threads() == []


def test_what_goes_wrong_in_a_thread_is_raised_after_the_rows_of_the_others():
    def rows(cluster):
        if cluster == "b":
            raise MemoryError
        yield cluster

    batches = in_threads(CLUSTERS, rows, threading.Event())
    assert sorted(itertools.islice(batches, 2)) == ["a", "c"]
    with pytest.raises(MemoryError):
        next(batches)


class Broker:
    """A connection to a cluster's only broker, whose host is the alias: it gives these answers, the last
    one for ever.
    """

    def __init__(self, answers: list[dict], address: tuple[str, int]) -> None:
        self.address = address
        self.api_versions, self.features = {3: (0, 12)}, {"metadata.version": 27}
        self.supported_features = {"metadata.version": 29}
        self.sent_at = datetime.now(UTC)
        self._answers = answers

    def request(self, *_, **__) -> Answer:
        given = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        broker = {"node_id": 1, "host": self.address[0], "port": 9092, "rack": None}
        body = write_message(METADATA_RESPONSE, self.api_versions[3][1], given | {"brokers": [broker]})
        return Answer(body, datetime.now(UTC), 1.0)

    def close(self) -> None:
        pass


@pytest.fixture
def polled(monkeypatch):
    """By cluster, the headers of a task's `polls` polls on a short beat; `answers`: by cluster, see Broker."""

    pa.array(np.zeros(1))  # the first one of a process imports pandas, which takes longer than the beat

    def poll(answers: dict[str, list[dict]], polls: int, at: datetime, **own: dict[str, str]) -> dict[str, list[dict]]:
        monkeypatch.setattr(poller, "_memories", {})
        monkeypatch.setattr(connections, "Connection", lambda _, address, *__: Broker(answers[address[0]], address))
        clusters = {alias: {"kafka.bootstrap.servers": f"{alias}:9092"} | own.get(alias, {}) for alias in answers}
        options = parse({"clusters": json.dumps(clusters), "pollInterval": "500ms", "requestTimeout": "2s"}, "stream")
        (task,) = _tasks(options, plan(Offset(), int(at.timestamp() * 1000), options.beat_ms, polls, {}))
        table = pa.Table.from_batches(_read_on_schedule(task), POLLS)
        assert set(table["day"].to_pylist()) == {at.astimezone(UTC).date()}
        rows = table.to_pylist()
        asked, headers = outcomes_of(rows), [row for row in rows if row["record"] == "poll"]
        return {
            alias: [row | {"asked": asked.get((alias, row["n"]))} for row in headers if row["cluster"] == alias]
            for alias in answers
        }

    return poll


def test_the_odd_answer_of_a_cluster_is_its_failed_poll_and_no_other_cluster_notices(polled):
    usual, odd = usual_answer(2, 3), usual_answer(2, 3)
    odd["topics"][1]["partitions"][2]["partition_index"] = 1
    headers = polled({"odd": [usual, odd, usual], "even": [usual]}, 3, datetime.now(UTC))
    assert [header["error"] for header in headers["even"]] == [None] * 3
    assert [header["is_key_frame"] for header in headers["even"]] == [True, False, False]
    assert [(header["outcome"], header["error_kind"], header["error"]) for header in headers["odd"]] == [
        ("ok", None, None),
        ("failed", "odd_answer", "odd:9092: it lists topic topic-1, partition 1 twice"),
        ("ok", None, None),
    ]
    assert headers["odd"][1]["attempts"] == 1, "this broker would say the same again"
    assert headers["odd"][0]["digest"] == headers["odd"][2]["digest"]
    assert headers["odd"][1]["digest"] is None


def test_all_rows_of_a_batch_have_the_day_of_its_first_poll(polled):
    """One that is run again days later too: its polls lie where the plan has them."""
    headers = polled({"one": [usual_answer(2, 3)]}, 2, datetime(2026, 11, 20, 23, 59, 59, 800_000, tzinfo=UTC))
    assert [header["scheduled_at"].date() for header in headers["one"]] == [date(2026, 11, 20), date(2026, 11, 21)]


def test_each_cluster_has_an_interval_and_questions_of_its_own(polled):
    own = {
        "quick": {"enrich": "fenced=1s"},
        "usual": {"pollInterval": "1s", "enrich": "fenced"},
        "seldom": {"pollInterval": "1500ms"},
    }
    headers = polled({alias: [usual_answer(2, 3)] for alias in own}, 4, datetime.now(UTC), **own)
    assert {alias: [header["n"] for header in headers[alias]] for alias in own} == {
        "quick": [0, 1, 2, 3],
        "usual": [0, 2],
        "seldom": [0, 3],
    }
    assert {(alias, header["interval_ms"]) for alias in own for header in headers[alias]} == {
        ("quick", 500),
        ("usual", 1_000),
        ("seldom", 1_500),
    }
    begin = headers["quick"][0]["scheduled_at"]
    for header in itertools.chain(*headers.values()):
        after = header["n"] * timedelta(milliseconds=500) + list(own).index(header["cluster"]) * timedelta(
            milliseconds=25
        )
        assert header["scheduled_at"] - begin == after
        assert header["is_key_frame"] == (header["n"] == 0), "bronze has what changed within a batch"
        assert [told["is_behind"] for told in header["witnesses"] or ()] == [], "it is known what was there before"
    asked = {alias: [header["n"] for header in headers[alias] if header["asked"]] for alias in own}
    assert asked == {"quick": [0, 2], "usual": [0], "seldom": []}


def test_clusters_are_due_and_polled_one_after_the_other(polled):
    aliases = [f"c{number}" for number in range(8)]
    begin = datetime.now(UTC) + timedelta(seconds=0.2)  # threads start before
    headers = polled({alias: [usual_answer(2, 3)] for alias in aliases}, 2, begin)
    # Eight of them 25 ms apart would take more than a quarter of the beat.
    for place, alias in enumerate(aliases):
        due = [timedelta(milliseconds=n * 500 + place * 125 // 8) for n in range(2)]
        since = begin.replace(microsecond=begin.microsecond // 1000 * 1000)
        assert [header["scheduled_at"] - since for header in headers[alias]] == due
        assert all(header["received_at"] >= header["scheduled_at"] for header in headers[alias]), "none is sent early"


def test_a_cluster_that_is_due_later_has_as_much_time_for_its_answer(polled, monkeypatch):
    ends, poll = {}, poller.Poller.poll

    def timed(self, turn, *, until):
        ends[self._cluster.alias] = until
        return poll(self, turn, until=until)

    monkeypatch.setattr(poller.Poller, "poll", timed)
    own = {f"c{number:02}": {"pollInterval": "20s"} for number in range(20)}
    polled({alias: [usual_answer(2, 3)] for alias in own}, 1, datetime.now(UTC) + timedelta(seconds=0.2), **own)
    assert ends["c19"] - ends["c00"] > 0.4, "it is due 475 ms after the first one"


def test_a_batch_that_is_run_again_has_the_same_due_times_also_with_available_now():
    clusters = {f"c{number}": {"kafka.bootstrap.servers": "one:1"} for number in range(100)}
    planned, again = (stream(clusters=json.dumps(clusters), pollInterval="60s") for _ in range(2))
    again.prepareForTriggerAvailableNow()
    start = planned.initialOffset()
    end = planned.latestOffset(start, None)
    for reader in (planned, again):
        tasks = reader.partitions(start, end)
        after = {due.cluster.alias: due.after_ms for task in tasks for due in task.due}
        assert after == {alias: 25 * place for place, alias in enumerate(clusters)}
        assert {task.scheduled_ms for task in tasks} == {end["scheduled_ms"]}


def test_a_cluster_that_is_polled_seldom_is_due_at_its_own_time_within_the_beat():
    """Whichever others are due with it: as far from one of its polls to the next as its interval says."""
    own = {
        f"c{number}": {"kafka.bootstrap.servers": "one:1", "pollInterval": f"{number % 3 + 1}s"} for number in range(9)
    }
    given = {"clusters": json.dumps(own)}
    offset, found = Offset(), []
    for _ in range(7):
        offset = plan(offset, offset.due_ms or 1_780_000_000_000, 1_000, 1, given)
        found.append(
            {due.cluster.alias: due.after_ms for task in _tasks(parse(given, "stream"), offset) for due in task.due}
        )
    assert found[0] == {alias: 25 * place for place, alias in enumerate(own)}
    assert [len(due) for due in found[:4]] == [9, 3, 6, 6]
    assert all(found[0][alias] == after for due in found for alias, after in due.items())


def test_a_broker_that_is_upgraded_is_asked_in_its_new_version_by_the_poll_that_finds_its_connection_lost(
    polled, monkeypatch
):
    usual, versions = usual_answer(2, 3), iter([9, 12])

    class Upgraded(Broker):
        """It is stopped after two answers, and its successor has more versions."""

        def __init__(self, answers: list[dict], address: tuple[str, int]) -> None:
            super().__init__(answers, address)
            self.version, self.left = next(versions), 2
            self.api_versions = {3: (0, self.version)}

        def request(self, *_, **__) -> Answer:
            self.left -= 1
            if self.version == 9 and self.left < 0:
                raise PollError("unreachable", "one:9092: connection lost")
            return super().request()

    monkeypatch.setattr(sys.modules[__name__], "Broker", Upgraded)
    headers = polled({"one": [usual]}, 4, datetime.now(UTC))["one"]
    assert [(header["outcome"], header["api_version"], header["attempts"]) for header in headers] == [
        *[("ok", 9, 1)] * 2,
        ("ok", 12, 2),
        ("ok", 12, 1),
    ]


def stream(**options: str) -> _StreamReader:
    given = {"kafka.bootstrap.servers": "one:1", "pollInterval": "1s", **options}
    return _StreamReader(parse(given, "stream"), given)


def test_a_batch_that_is_run_again_polls_what_was_planned_and_reaches_it_as_is_said_now():
    """A secret that was given another name since is not there by the old one: each start would die of it."""
    names = ("stays", "gone")
    before = {name: {"kafka.bootstrap.servers": f"{name}:1", "clusterId": name} for name in names}
    now = {name: {"kafka.bootstrap.servers": f"{name}:2"} for name in ("stays", "new")}
    planned = stream(clusters=json.dumps(before), clientHashKey="env:OLD", topics="a", pollsPerBatch="2")
    planned.prepareForTriggerAvailableNow()
    start = planned.initialOffset()
    end = planned.latestOffset(start, None)
    again = stream(clusters=json.dumps(now), clientHashKey="env:NEW", topics="b", pollsPerBatch="3")
    (task,) = again.partitions(start, end)
    assert task.client_hash_key == "env:NEW"
    assert [(each.cluster.alias, each.cluster.bootstrap_servers) for each in task.due] == [
        ("stays", (("stays", 2),)),
        ("gone", (("gone", 1),)),
    ]
    assert (task.topic_filter.topics, task.polls) == (("a",), 2)


def test_a_checkpoint_whose_stream_is_older_than_the_newest_is_refused():
    """History would take none of its polls, and nobody would be told."""
    begun = stream()
    end = begun.latestOffset(begun.initialOffset(), None)
    own = end["stream"]
    assert stream(newestStream=own).latestOffset(end, None)["stream"] == own
    newer = "29990101T000000Z-00000000"
    with pytest.raises(OptionsError, match=rf"newer stream \({newer}\) than this checkpoint's \({own}\).*: remove the"):
        stream(newestStream=newer).latestOffset(end, None)
    assert stream(newestStream=newer).latestOffset(begun.initialOffset(), None)["stream"] > newer
