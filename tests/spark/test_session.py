"""What a session must have for the jobs, and the line that says so."""

import ipaddress

import psutil
from pyspark.sql import SparkSession

from jobs.run.session import COMPILED_FROM, session_for, spark_session


def test_a_session_with_delta_is_taken_as_it_is(spark: SparkSession) -> None:
    assert spark_session("job") is spark


def test_many_rows_are_worked_on_in_a_session_that_compiles(spark: SparkSession) -> None:
    assert session_for(spark, COMPILED_FROM - 1) is spark
    assert session_for(spark, COMPILED_FROM).conf.get("spark.sql.codegen.factoryMode") == "FALLBACK"
    assert session_for(spark, COMPILED_FROM) is session_for(spark, COMPILED_FROM)
    of_others = spark.newSession()
    of_others.conf.unset("spark.sql.codegen.factoryMode")
    assert session_for(of_others, COMPILED_FROM) is of_others


def test_nobody_on_the_network_reaches_the_session(spark: SparkSession) -> None:
    """Its driver and its block manager would run what they are sent."""
    process = psutil.Process(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    listening = [
        each.laddr for each in process.net_connections("tcp") if each.status == psutil.CONN_LISTEN
    ]
    driver = int(spark.conf.get("spark.driver.port"))
    assert driver in {place.port for place in listening}
    # Java's sockets are of IPv6 where the machine has it: ::ffff:127.0.0.1.
    addresses = [ipaddress.ip_address(place.ip) for place in listening]
    assert [
        each for each in addresses if not (getattr(each, "ipv4_mapped", None) or each).is_loopback
    ] == []
