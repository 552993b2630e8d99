"""``python -m benchmarks [--quick]``: every benchmark, one after the other; if it is to be quick,
of the rounds the first alone, and no fleet.
"""

import subprocess
import sys

from benchmarks import cluster_fold, cluster_log, decode, group_log, groups, lag, memory, poll
from benchmarks.rounds import __main__ as rounds

if __name__ == "__main__":
    decode.main()
    print()
    poll.main()
    print()
    memory.main()
    print()
    groups.main()
    print()
    group_log.main()
    print()
    cluster_log.main()
    print()
    cluster_fold.main()
    print()
    lag.main()
    print()
    # In a process of its own: this one has a Spark session without Delta by now.
    failed = subprocess.run(
        [sys.executable, "-m", "benchmarks.views", *sys.argv[1:]], check=False
    ).returncode
    if "--quick" not in sys.argv:
        print()
        failed |= subprocess.run([sys.executable, "-m", "benchmarks.fleet"], check=False).returncode
    print()
    sys.exit(rounds.main(["--only", "quiet_s"] if "--quick" in sys.argv else []) or failed)
