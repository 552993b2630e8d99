"""What a session must have for the jobs, and the line that says so."""

import pytest
from pyspark.sql import SparkSession

from jobs.common.session import COMPILED_FROM, SessionError, session_for, spark_session
from jobs.poll_metadata import check_slots


def test_polling_leaves_a_slot_free(spark: SparkSession) -> None:
    assert spark.conf.get("spark.master") == "local[4]"
    check_slots(spark, 3 * 64)
    with pytest.raises(SessionError, match=r"start with --master 'local\[5\]' or more"):
        check_slots(spark, 3 * 64 + 1)


def test_a_session_with_delta_is_taken_as_it_is(spark: SparkSession) -> None:
    assert spark_session("job") is spark


def test_many_rows_are_worked_on_in_a_session_that_compiles(spark: SparkSession) -> None:
    assert session_for(spark, COMPILED_FROM - 1) is spark
    assert session_for(spark, COMPILED_FROM).conf.get("spark.sql.codegen.factoryMode") == "FALLBACK"
    assert session_for(spark, COMPILED_FROM) is session_for(spark, COMPILED_FROM)
    of_others = spark.newSession()
    of_others.conf.unset("spark.sql.codegen.factoryMode")
    assert session_for(of_others, COMPILED_FROM) is of_others
