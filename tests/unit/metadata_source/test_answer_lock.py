"""Who waits while another thread reads an answer."""

import threading

import pytest

from metadata_source.answer_lock import SMALL_BYTES, answer_lock


@pytest.mark.parametrize(
    ("size", "waits"),
    [(0, True), (None, True), (SMALL_BYTES, True), (SMALL_BYTES + 1, False), (1 << 30, False)],
)
def test_small_answers_are_read_one_at_a_time_and_large_ones_wait_for_nobody(size, waits):
    has_read = threading.Event()

    def read() -> None:
        with answer_lock(size):
            has_read.set()

    thread = threading.Thread(target=read)
    with answer_lock(0):
        thread.start()
        assert has_read.wait(0.2 if waits else 5) is not waits
    assert has_read.wait(5)
    thread.join()
