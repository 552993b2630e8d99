"""Run a command for as long as the process that asked for it lives.

`python supervisor.py PARENT_PID FOLDER COMMAND...`

A broker must not outlive its test, not even one that is killed with SIGKILL. So this small process
stands between: it watches its parent, and when that is gone it kills the command (SIGKILL, which
also ends a paused one) and removes FOLDER; started as the leader of its session, as it should be,
it kills whatever the command had started too. (PR_SET_PDEATHSIG alone would not do: it fires when
the *thread* that started the child ends.) Runs on the standard library alone, and prints the
command's process id.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

SECONDS_BETWEEN_LOOKS = 0.2
PR_SET_PDEATHSIG = 1  # linux/prctl.h


def _die_with_supervisor() -> None:
    if sys.platform == "linux":
        # Safe here: this process has one thread.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main(argv: Sequence[str]) -> int:
    """Supervise; the exit status is the command's, or 1 when the parent went first."""
    parent, folder, *command = argv
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        preexec_fn=_die_with_supervisor,  # noqa: PLW1509  # one thread
    )
    os.write(sys.stdout.fileno(), f"{child.pid}\n".encode())
    while child.poll() is None:
        if os.getppid() != int(parent):
            child.kill()
            child.wait()
            shutil.rmtree(folder, ignore_errors=True)
            if os.getpgrp() == os.getpid():
                # All that the command has started ends, paused or not; and this process.
                os.killpg(0, signal.SIGKILL)
            return 1
        time.sleep(SECONDS_BETWEEN_LOOKS)
    return child.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
