"""Answers that are kept, and how many are made at a time."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from kafka_metadata_history.answers.questions import QueryError
from kafka_metadata_history.web.kept import BusyError, KeptAnswers


def test_an_answer_is_made_once_for_all_who_ask_at_a_time_and_later() -> None:
    made: list[int] = []
    go = threading.Event()

    def make() -> bytes:
        go.wait(30)
        made.append(1)
        return b"answer"

    async def asked() -> list[bytes]:
        answers = KeptAnswers()
        waiting = [asyncio.create_task(answers.get("key", make)) for _ in range(100)]
        await asyncio.sleep(0)
        go.set()
        found = [*await asyncio.gather(*waiting), await answers.get("key", make)]
        answers.close()
        return found

    assert asyncio.run(asked()) == [b"answer"] * 101
    assert made == [1]


def test_one_more_than_there_is_room_for_is_refused_and_the_others_are_answered() -> None:
    go = threading.Event()

    def make(value: bytes) -> Callable[[], bytes]:
        def made() -> bytes:
            go.wait(30)
            return value

        return made

    async def asked() -> None:
        answers = KeptAnswers(at_once=2, patience_s=0.05)
        first = [asyncio.create_task(answers.get(each, make(each))) for each in (b"1", b"2")]
        await asyncio.sleep(0)
        with pytest.raises(BusyError, match="too many questions at once"):
            await answers.get(b"3", make(b"3"))
        go.set()
        assert await asyncio.gather(*first) == [b"1", b"2"]
        # The room that they had is free again.
        assert await answers.get(b"3", make(b"3")) == b"3"
        answers.close()

    asyncio.run(asked())


def test_who_leaves_takes_the_answer_from_nobody() -> None:
    go = threading.Event()

    def make() -> bytes:
        go.wait(30)
        return b"answer"

    async def asked() -> bytes:
        answers = KeptAnswers()
        first, second = (asyncio.create_task(answers.get("key", make)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await first
        found = await second
        answers.close()
        return found

    assert asyncio.run(asked()) == b"answer"


def test_what_failed_is_not_kept() -> None:
    problems = iter([QueryError("once")])

    def make() -> bytes:
        for problem in problems:
            raise problem
        return b"answer"

    async def asked() -> bytes:
        answers = KeptAnswers()
        with pytest.raises(QueryError, match="once"):
            await answers.get("key", make)
        found = await answers.get("key", make)
        answers.close()
        return found

    assert asyncio.run(asked()) == b"answer"


def test_the_answers_that_nobody_asked_for_longest_go_first() -> None:
    made: list[str] = []

    async def asked() -> None:
        answers = KeptAnswers(most_bytes=10)

        async def get(key: str, size: int) -> None:
            def make() -> bytes:
                made.append(key)
                return b"x" * size

            assert len(await answers.get(key, make)) == size

        for key in ("a", "b", "a"):
            await get(key, 5)
        await get("c", 3)  # b goes, as a was asked for since
        await get("a", 5)
        await get("b", 5)
        await get("large", 50)  # is not kept itself
        await get("large", 50)
        answers.close()

    asyncio.run(asked())
    assert made == ["a", "b", "c", "b", "large", "large"]
