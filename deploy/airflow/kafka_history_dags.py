"""Two DAGs: poll each cluster once every five minutes, and hold what is new against the rules each
hour.

The workers have the command `kafka-metadata-history` on their PATH, and the secrets in variables
KAFKA_... that the configuration refers to. Set `pollInterval: 5m` under `poll` of the
configuration: if the interval is shorter than the time between two runs, there is a gap before each
run.
"""

from datetime import UTC, datetime, timedelta

try:
    from airflow.providers.standard.operators.bash import BashOperator
    from airflow.sdk import DAG
except ImportError:  # Airflow 2
    from airflow import DAG
    from airflow.operators.bash import BashOperator

CONFIG = "/etc/kafka-metadata-history/kafka-metadata-history.yaml"
CRITICAL = "critical"
# No run that was missed is made up for: what a cluster was like cannot be asked later.
COMMON = {"start_date": datetime(2026, 1, 1, tzinfo=UTC), "catchup": False, "max_active_runs": 1}

with DAG(dag_id="kafka_metadata_history", schedule="*/5 * * * *", **COMMON):
    BashOperator(
        task_id="run_once",
        bash_command=f"kafka-metadata-history run --once --config {CONFIG}",
        # The next run comes sooner than a retry would help.
        retries=0,
        # A run that hangs would hold up all that follow. SIGTERM may come at any moment.
        execution_timeout=timedelta(minutes=15),
    )

with DAG(dag_id="kafka_metadata_history_validate", schedule="17 * * * *", **COMMON):
    # If something critical was found the command exits 3, and a second try would look at newer rows
    # only. So a run is tried again only if it could not validate, and the verdict is a task of its
    # own, which fails at once.
    validate = BashOperator(
        task_id="validate",
        bash_command=(
            f"kafka-metadata-history validate --config {CONFIG}; status=$?; if [ $status -eq 3 ]; "
            f"then echo {CRITICAL}; exit 0; fi; exit $status"
        ),
        # The last line of the output is what the verdict reads.
        do_xcom_push=True,
        retries=2,
        retry_delay=timedelta(minutes=5),
        execution_timeout=timedelta(minutes=30),
    )
    verdict = BashOperator(
        task_id="verdict",
        bash_command='test "$FOUND" != ' + CRITICAL,
        env={"FOUND": "{{ ti.xcom_pull(task_ids='validate') }}"},
        append_env=True,
        retries=0,
    )
    validate >> verdict
