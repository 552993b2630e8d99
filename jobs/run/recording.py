"""The recorder of a job: the process that polls, started before Spark is, so that polls begin
within seconds.
"""

import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobs.configuration.config import Config, spool_beside

TOKEN = secrets.token_hex(8)
"""Tells a recorder, and the readers of its spool, whose they are: this process's."""


@contextmanager
def recording(config: Config) -> Iterator[None]:
    """Have all clusters polled meanwhile, into the spool of a configuration, by a recorder that
    ends with this process.

    Where Spark is a server's (Spark Connect) nothing is started: the query's reader starts one, on
    that machine. Raises SpoolError where the spool cannot be written, or is another pipeline's, and
    OptionsError for what the recorder would refuse.
    """
    if os.environ.get("SPARK_REMOTE"):
        yield
        return
    from metadata_source.options import parse  # noqa: PLC0415
    from metadata_source.pseudonyms import Pseudonyms  # noqa: PLC0415
    from metadata_source.recorder.folder import attend, began_s  # noqa: PLC0415
    from metadata_source.recorder.start import end, start  # noqa: PLC0415 - of all jobs, two poll

    options, spool = config.source_options({}), Path(config.spool)
    if (key := parse(options, "stream").client_hash_key) is not None:
        Pseudonyms.of_reference(key)  # else each recorder ends of it, and only the log says why
    claim_spool(config)
    recorder = start(options, spool, TOKEN, (os.getpid(), began_s(os.getpid())), once=False)
    is_over = threading.Event()
    # While a batch runs for long, or a query waits to be started again, no reader attends: polls
    # are made all the same.
    threading.Thread(target=attend, args=(spool, is_over), name="attends", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()
        end(recorder)


def claim_spool(config: Config) -> None:
    """Note that the spool has this configuration's polls. Raises SpoolError where it has another
    one's: two files may name one folder. Nobody else has the folder that none names.
    """
    from metadata_source.recorder.folder import claim  # noqa: PLC0415

    if config.spool != spool_beside(config.checkpoints) and not os.environ.get("SPARK_REMOTE"):
        claim(Path(config.spool), config.checkpoints)
