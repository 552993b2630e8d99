"""What a session must have for the jobs, and the line that says so."""

import pytest
from pyspark.sql import SparkSession

from jobs.common.session import SessionError, spark_session
from jobs.poll_metadata import check_slots


def test_polling_leaves_a_slot_free(spark: SparkSession) -> None:
    assert spark.conf.get("spark.master") == "local[4]"
    check_slots(spark, 3 * 64)
    with pytest.raises(SessionError, match=r"start with --master 'local\[5\]' or more"):
        check_slots(spark, 3 * 64 + 1)


def test_a_session_with_delta_is_taken_as_it_is(spark: SparkSession) -> None:
    assert spark_session("job") is spark
