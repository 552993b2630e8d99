"""Runs jobs one after the other in one session. Each argument is the command line of a job: a name,
then arguments.

python jobs_in_a_row.py "JOB ARGUMENT..." ...
"""

import runpy
import shlex
import sys

if __name__ == "__main__":
    for line in sys.argv[1:]:
        sys.argv = shlex.split(line)
        try:
            runpy.run_module(
                f"kafka_metadata_history.jobs.{sys.argv[0]}", run_name="__main__", alter_sys=True
            )
        except SystemExit as ended:
            if ended.code:
                raise
