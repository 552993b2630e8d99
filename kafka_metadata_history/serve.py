"""The command serve: pages over a lake."""

import os
import socket
from collections.abc import Sequence
from pathlib import Path

import click

from jobs.configuration.config import ConfigError, load
from kafka_metadata_history.config_option import config_option
from kafka_metadata_history.printed import say
from metadata_source.references import REFERENCE, resolve_secret

SHORTEST = 16
"""So long a token is at least: one that is tried out letter by letter takes years."""


@click.command()
@config_option
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8484,
    show_default=True,
    help="0: any free one.",
)
@click.option(
    "--token",
    metavar="REFERENCE",
    help="Who asks has to show this token: env:NAME or file:/path. Needed beyond loopback.",
)
@click.option("--metrics-token", metavar="REFERENCE", help="Another token, of /metrics alone.")
@click.option("--metrics-brokers", is_flag=True, help="Metrics of each broker, too.")
@click.option("--metrics-lag", is_flag=True, help="Metrics of the lag of groups, the largest.")
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name by which the pages may be asked, such as that of a proxy.",
)
@click.option(
    "--allow-sql", is_flag=True, help="Answer SQL that people write, on other hosts, too."
)
@click.option("--tls-cert", type=click.Path(dir_okay=False, exists=True), help="PEM: serve HTTPS.")
@click.option("--tls-key", type=click.Path(dir_okay=False, exists=True), help="PEM, of --tls-cert.")
def serve(
    *,
    config: str,
    host: str,
    port: int,
    token: str | None,
    metrics_token: str | None,
    metrics_brokers: bool,
    metrics_lag: bool,
    hosts: Sequence[str],
    allow_sql: bool,
    tls_cert: str | None,
    tls_key: str | None,
) -> None:
    """Show the lake as pages in a browser, until Ctrl-C. Read only, and without a JVM."""
    from kafka_metadata_history.web import server  # noqa: PLC0415 - for this command alone
    from kafka_metadata_history.web.access import Access, is_loopback  # noqa: PLC0415
    from kafka_metadata_history.web.app import Pages, Serving  # noqa: PLC0415

    read = load(config)
    # Names are given where others ask, through a proxy.
    is_local = is_loopback(host) and not hosts
    if not is_local and token is None:
        given = f"--allow-host {hosts[0]}" if hosts else f"--host {host}"
        raise ConfigError(
            f"{given}: others than this machine reach it, so --token is needed: env:NAME or "
            "file:/path"
        )
    if odd := next((each for each in hosts if ":" in each), None):
        raise ConfigError(f"--allow-host {odd}: a name without a port")
    if (tls_cert is None) != (tls_key is None):
        raise ConfigError("--tls-cert and --tls-key: give both or neither")
    access = Access(
        _secret("--token", token),
        _secret("--metrics-token", metrics_token),
        (host, *hosts) if hosts or is_loopback(host) else None,
        tls_cert is not None,
    )
    file = str(Path(config).resolve())
    is_allowed = allow_sql or is_local
    pages = Pages(Serving(read, file, access, is_allowed, metrics_brokers, metrics_lag))
    tls = None if tls_cert is None or tls_key is None else (tls_cert, tls_key)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigError(
            f"--host {host} --port {port}: {_why(error)}; --port 0 takes a free one"
        ) from error
    with listening:
        number = listening.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        scheme = "http" if tls_cert is None else "https"
        say([f"{scheme}://{shown}:{number} shows {read.lake}; Ctrl-C ends it"])
        server.run(pages, listening, tls)


def _why(error: OSError) -> str:
    """The problem, without the address, which Python appends."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error.strerror)


def _secret(option: str, reference: str | None) -> str | None:
    if reference is None:
        return None
    if not REFERENCE.fullmatch(reference):
        raise ConfigError(
            f"{option}: not a reference: give env:NAME or file:/path, no token itself"
        )
    secret = resolve_secret(option, reference).strip()
    if len(secret) < SHORTEST:
        raise ConfigError(f"{option}: {reference} has less than {SHORTEST} characters")
    return secret
