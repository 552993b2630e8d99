"""What the threads of a task hand on, without Spark and without Kafka."""

import itertools
import threading
import time

import pytest

from metadata_source.threads import _QUEUED, in_threads, side_by_side
from tests.support.waiting import eventually

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
        most = taken + _QUEUED + len(CLUSTERS)
        eventually(lambda most=most: len(made) >= most, "threads that wait for room")
        assert len(made) == most
    assert len(list(batches)) == 20 * len(CLUSTERS) - taken
    assert threads() == []


def test_whoever_stops_taking_ends_all_threads():
    """Spark drops a read that it cancels: some of its threads wait for room then, some for the next
    poll.
    """
    stopped, made = threading.Event(), []

    def rows(cluster):
        while not stopped.is_set():
            made.append(cluster)
            yield cluster
            if cluster == "a":
                stopped.wait()

    batches = in_threads(CLUSTERS, rows, stopped)
    next(batches)
    eventually(lambda: len(made) == 1 + _QUEUED + 2, "a queue that is full")
    assert len(threads()) == len(CLUSTERS)
    batches.close()
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


def test_side_by_side_in_a_bounded_number_of_threads() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def call(item: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1
        return -item

    assert side_by_side(range(200), call, "test") == [-n for n in range(200)]
    assert 1 < most <= 64
    assert side_by_side([], call, "test") == []
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        side_by_side([1, 0, 2], lambda n: 1 // n, "test")
    assert threading.active_count() == before
