"""The leader of the partitions of a log, as who reads one asks for it."""

from collections.abc import Mapping
from typing import Any

from metadata_source.logs.topic.positions import LogExtent
from metadata_source.logs.topic.watcher import Led

ADDRESS = ("host", 1)


class Leader:
    """The leader of some partitions: `log` has, of each, batches with their last offsets. The first
    of those that are asked for come with an answer, and the begin of the one after. `ends`: where
    partitions end that have nothing at their ends. `asked`: the offsets of each fetch.
    """

    def __init__(
        self,
        log: Mapping[int, list[tuple[int, bytes]]],
        batches_an_answer: int = 3,
        ends: Mapping[int, int] | None = None,
    ) -> None:
        self.log, self.batches_an_answer = log, batches_an_answer
        lasts = {partition: of[-1][0] + 1 if of else 0 for partition, of in log.items()}
        self.ends = {each: max(end, (ends or {}).get(each, 0)) for each, end in lasts.items()}
        self.asked: list[dict[int, int]] = []
        self.leaders_asked = 0
        self.codes: dict[int, int] = {}

    def leaders(self) -> dict[tuple[str, int], list[Led]]:
        self.leaders_asked += 1
        return {ADDRESS: [Led(partition, -1) for partition in self.log]}

    def fetch(
        self, _address: object, offsets: dict[Led, int], _deadline: float
    ) -> list[dict[str, Any]]:
        self.asked.append({each.partition: offset for each, offset in offsets.items()})
        return [self.answer(each.partition, offset) for each, offset in offsets.items()]

    def ask_extent(self) -> LogExtent:
        begins = dict.fromkeys(self.ends, 0)
        return LogExtent("id", None, frozenset(self.ends), begins, self.ends)

    def answer(self, partition: int, offset: int) -> dict[str, Any]:
        there = [data for last, data in self.log[partition] if last >= offset]
        cut = there[self.batches_an_answer : self.batches_an_answer + 1]
        records = b"".join(there[: self.batches_an_answer]) + b"".join(
            each[: len(each) // 2] for each in cut
        )
        code = self.codes.get(partition, 0)
        return {
            "partition_index": partition,
            "error_code": code,
            "high_watermark": self.ends[partition],
            "records": None if code else records,
        }
