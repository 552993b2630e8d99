"""``python -m metadata_source.recorder``: poll clusters into a spool, as JSON on stdin says."""

from __future__ import annotations

import logging
import os
import sys
from typing import Final

from metadata_source.errors import KafkaMetadataHistoryError, OptionsError
from metadata_source.recorder.process import Order, record
from metadata_source.recorder.start import REFUSED

_INTERRUPTED: Final = 75
"""The exit status of a recorder that ended before it polled each cluster once (EX_TEMPFAIL)."""


def main() -> int:
    """Record until the end; return the exit status."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s recorder: %(message)s"
    )
    try:
        is_complete = record(Order.read(sys.stdin.read()))
    except KafkaMetadataHistoryError as error:
        print(f"recorder: {error}", file=sys.stderr)
        return REFUSED if isinstance(error, OptionsError) else error.exit_status
    return 0 if is_complete else _INTERRUPTED


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    os._exit(status)  # threads that still wait for a broker end here
