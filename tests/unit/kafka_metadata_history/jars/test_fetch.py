"""What Ivy is asked for, and what it could not get."""

from pathlib import Path

from kafka_metadata_history.jars.fetch import failures, ivy_arguments


def test_ivy_is_asked_for_jars_and_bundles_in_the_maven_layout():
    arguments = ivy_arguments(
        "org.apache.kafka",
        "kafka_2.13",
        "4.3.1",
        cache=Path("/c"),
        target=Path("/t"),
        transitive=False,
    )
    assert arguments == [
        *("-m2compatible", "-cache", "/c", "-types", "jar", "bundle", "-notransitive"),
        *("-dependency", "org.apache.kafka", "kafka_2.13", "4.3.1"),
        *("-retrieve", "/t/[artifact]-[revision](-[classifier]).[ext]"),
    ]


def test_what_ivy_could_not_get_is_found_in_its_log():
    log = """
:: resolving dependencies :: org.apache.kafka#kafka_2.13-caller;working
	found org.apache.kafka#kafka_2.13;4.3.1 in public
:: problems summary ::
:::: ERRORS
	Server access error at url https://example.org/pom (java.net.UnknownHostException: example.org)
	Server access error at url https://example.org/jar (java.net.UnknownHostException: example.org)
		::          UNRESOLVED DEPENDENCIES         ::
		:: org.apache.kafka#kafka_2.13;9.9.9: not found
		::              FAILED DOWNLOADS            ::
		:: ^ see resolution messages for details  ^ ::
		:: org.scala-lang#scala-library;2.13.18!scala-library.jar
"""
    assert failures(log) == [
        "java.net.UnknownHostException: example.org",
        "org.apache.kafka#kafka_2.13;9.9.9: not found",
        "org.scala-lang#scala-library;2.13.18!scala-library.jar",
    ]
