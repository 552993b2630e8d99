"""Spools as a recorder leaves them, without a recorder: entries of small polls."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from metadata_source.columns.polls import POLLS
from metadata_source.recorder.news import News
from metadata_source.recorder.spool import Owner, Spool

BEGIN_MS = 1_780_000_000_000


def owner(token: str = "token", run: str = "run") -> Owner:  # noqa: S107 - no password
    """This process, under a name."""
    here = Owner.here(token)
    return Owner(token, here.pid, here.started, run)


def opened(folder: Path | str, token: str = "token", run: str = "run") -> Spool:  # noqa: S107 - no password
    return Spool.open(Path(folder), owner(token, run))


def poll_rows(
    cluster: str, at_ms: int, said: str | None = None, rows: int = 0
) -> list[pa.RecordBatch]:
    """The header of a poll, which says `said`, after so many rows of topics."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    key = {"poll_id": "", "stream": "", "n": 0, "cluster": cluster, "chunk": 0, "day": at.date()}
    topics = [key | {"record": "topic", "topic": f"topic-{number}"} for number in range(rows)]
    header = key | {"record": "poll", "scheduled_at": at, "outcome": "ok", "broker": said}
    return [pa.RecordBatch.from_pylist([row], schema=POLLS) for row in (*topics, header)]


def record(
    spool: Spool,
    cluster: str,
    at_s: float,
    *,
    news: News = News.QUIET,
    key: bool = False,
    ok: bool = True,
    said: str | None = None,
    rows: int = 0,
) -> bool:
    """Append the poll of a cluster that was due so long after BEGIN_MS."""
    at_ms = BEGIN_MS + round(at_s * 1000)
    batches = poll_rows(cluster, at_ms, said or f"{cluster}@{at_s:g}", rows)
    return spool.append(cluster, at_ms, batches, news, is_key_frame=key, ok=ok)


def rows_of(streams: Iterable[bytes]) -> list[dict]:
    """The rows of IPC streams."""
    batches = [batch for stream in streams for batch in pa.ipc.open_stream(stream)]
    assert all(batch.schema.equals(POLLS) for batch in batches)
    return pa.Table.from_batches(batches, POLLS).to_pylist()


def said(rows: Sequence[dict]) -> list[str]:
    """What the headers among rows say."""
    return [row["broker"] for row in rows if row["record"] == "poll"]
