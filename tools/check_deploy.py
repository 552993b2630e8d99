"""Find faults in deploy/, in the Makefile and in the locks: ``python -m tools.check_deploy``.

They name no registry's host, hold no secret, have short lines and the lines that keep a machine
safe, and name commands, objects and versions that exist. The command exits 1 if it finds a fault.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from kafka_metadata_history.answers.metrics.declared import PREFIX, exported_names
from kafka_metadata_history.command import NAME, app
from metadata_source.references import DEFAULT_FOLDERS, DEFAULT_PREFIXES

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[1]
DEPLOY: Final = ROOT / "deploy"
DEPLOYMENT: Final = DEPLOY / "kubernetes/deployment.yaml"
LONGEST_LINE: Final = 120
POD: Final = (
    "allowPrivilegeEscalation: false",
    r"drop: \[ALL\]",
    "runAsNonRoot: true",
    "runAsUser: 10001",
    "type: RuntimeDefault",
)
"""Lines of a pod."""
HARD: Final = (
    f"User={NAME}",
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=",
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "SystemCallFilter=@system-service",
    r"MemoryMax=\dG",
)
"""Lines of a service."""
POLLS: Final = ("LimitNOFILE=65536", r"EnvironmentFile=\S+")
"""Lines of a service that polls: it has the secrets of clusters, and nobody else has."""
MUST: Final[dict[str, tuple[str, ...]]] = {
    "systemd/*.service": HARD,
    f"systemd/{NAME}.service": (*POLLS, "Restart=on-failure", "SuccessExitStatus=143"),
    f"systemd/{NAME}-notify.service": ("Restart=on-failure", r"EnvironmentFile=\S+/notify\.env"),
    **dict.fromkeys(
        ("systemd/*-once.service", "systemd/*-status.service", "systemd/*-validate.service"),
        ("Type=oneshot", r"TimeoutStartSec=\S+"),
    ),
    f"systemd/{NAME}-serve.service": ("Restart=on-failure", "SuccessExitStatus=143"),
    f"systemd/{NAME}-once.service": POLLS,
    "systemd/*-once.timer": (f"Conflicts={NAME}.service",),
    "kubernetes/s*-*.yaml": POD,
    **dict.fromkeys(
        ("kubernetes/deployment.yaml", "templates/deployment.yaml"),
        (*POD, "readOnlyRootFilesystem: true", "replicas: 1", "type: Recreate"),
    ),
    "kubernetes/spark-application.yaml": (
        # The driver has no rights to services and claims.
        'spark.kubernetes.driver.service.deleteOnTermination: "false"',
        'spark.kubernetes.driver.ownPersistentVolumeClaim: "false"',
    ),
    "kubernetes/status-cronjob.yaml": ("concurrencyPolicy: Forbid", "backoffLimit: 0"),
    "kubernetes/network-policy.yaml": (r"policyTypes: \[Ingress\]", r"- podSelector: \{\}"),
    "databricks/resources/*.yml": ("max_concurrent_runs: 1", f"entry_point: {NAME}"),
    "docker/Dockerfile": ("USER 10001:10001",),
}
"""By the names of files, patterns of whole lines that each of them has."""
MUST_NOT: Final[dict[str, tuple[str, ...]]] = {
    "*": (
        # Hosts come from the machine's own settings.
        r"\b(?!local:|sc:|s3a:)[a-z0-9+]+://\S+",
        r"index-url|find-links|trusted-host|repositories",
        r"(?:FROM|image:|COPY --from=)\s*[^\s/]*[.:][^\s/]*/\S+",
        r"(?:FROM|image:|COPY --from=)\s*\S+:latest\b",
    ),
    "systemd/*.service": (r"^MemoryDenyWriteExecute=",),  # Java compiles in memory
    "systemd/*-[sv]*.service": (r"^EnvironmentFile=",),  # nor has `serve`: it reads the lake
    # The configuration of the jobs is a ConfigMap, too.
    "kubernetes/rbac.yaml": (r"verbs: .*\bupdate\b",),
    # Both could bring files that nobody checked; so could a whole folder.
    "docker/Dockerfile": (r"^(?:ADD|ARG) ", r"^COPY (?!--from)(?:.* )?[.*/]+ "),
}
"""By the names of files, patterns that none of their lines has."""
CHART: Final = f"helm/{NAME}"
IMAGES: Final = (
    *(f"kubernetes/{name}.yaml" for name in ("spark-application", "status-cronjob", "deployment")),
    f"{CHART}/values.yaml",
)
"""Files that name an image of the Dockerfile."""
SECRET: Final = re.compile(r"(?i)password|secret(?!Name$)|token|credential|access.?key")
ASSIGNED: Final = r"(?m)^\W*(?:export |env )?([\w.]+)\s*[=:][ \t]*(\S.*)$"
REFERENCE: Final = re.compile(
    rf"env:{DEFAULT_PREFIXES}\w+|file:(?:{'|'.join(DEFAULT_FOLDERS.split(':'))})/[\w./-]+|"
    r"\{\{secrets/[\w./-]+\}\}|true|false|"
)


def faults(name: str, text: str) -> Iterator[str]:
    """Yield what is wrong with one file of deploy/ by itself."""
    path, lines = Path(name), text.splitlines()
    for each in lines:
        if len(each) > LONGEST_LINE and not each.startswith("|"):
            yield f"a long line: {each[:40]}..."
    for pattern in (each for of, some in MUST.items() if path.match(of) for each in some):
        if not re.search(rf"(?m)^ *(?:- )?{pattern}$", text):
            yield f"no line is {pattern}"
    for pattern in (each for of, some in MUST_NOT.items() if path.match(of) for each in some):
        yield from (
            f"{line.strip()!r} is not allowed" for line in lines if re.search(pattern, line)
        )
    for command in re.findall(rf"`{NAME} ([a-z]+)", text):
        if command not in app.commands:
            yield f"there is no command {command}"
    spark = r"spark-submit|pyspark-shell|SPARK_REMOTE|PYSPARK_SUBMIT_ARGS|kind: SparkApplication"
    if path.parent.name in {"prometheus", "grafana"}:
        yield from (f"{each} is no metric" for each in metrics_that_are_none(text))
    if re.search(spark, text) and 'spark.authenticate: "true"' not in text:
        yield "another Spark has to ask who connects"
    yield from (f"{key} is a secret" for key in _given_secrets(path, text))


def _given_secrets(path: Path, text: str) -> Iterator[str]:
    """Yield the keys that say they hold a secret, and hold more than a reference."""
    pairs = [(key, value.strip("'\"")) for key, value in re.findall(ASSIGNED, text)]
    if path.suffix in {".yaml", ".yml"} and not is_template(path):
        pairs += [pair for each in nested(text) for pair in _pairs("", each)]
    for key, value in pairs:
        if SECRET.search(key) and not REFERENCE.fullmatch(value):
            yield key


def _pairs(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _pairs(name, item)
    elif isinstance(value, list):
        for item in value:
            yield from _pairs(key, item)
    elif not isinstance(value, bool):
        yield key, str(value)


def nested(text: str) -> list[Any]:
    """Return the documents of a YAML file, and those in its ConfigMaps."""
    found = [each for each in yaml.safe_load_all(text) if each is not None]
    maps = [each for each in found if isinstance(each, dict) and each.get("kind") == "ConfigMap"]
    return [*found, *(yaml.safe_load(inner) for each in maps for inner in each["data"].values())]


def is_template(path: Path) -> bool:
    """Return whether helm makes YAML of a file, which is none yet."""
    return path.parent.name == "templates"


def metrics_that_are_none(text: str) -> Iterator[str]:
    """Yield the names of metrics of Kafka's state that nobody exports."""
    yield from sorted(set(re.findall(rf"\b{PREFIX}\w+", text)) - exported_names())


def installs(text: str) -> Iterator[str]:
    """Yield steps that would install files without a checksum."""
    for step in re.split(r"&&|\n(?![ \t]*&&)", text.replace("\\\n", " ")):
        if re.search(r"^(?!@?#)[^#]*\bpip\)? .*(?:install|wheel) ", step, re.IGNORECASE):
            has_checksums = "--require-hashes" in step or "--no-index" in step
            builds_alone = "--no-build-isolation" in step or "--only-binary :all:" in step
            if not has_checksums or not (builds_alone or "--no-index" in step):
                yield f"{step.strip()[:60]!r} installs without a checksum"


def objects() -> Iterator[str]:
    """Yield references to objects of Kubernetes that no file has."""
    found = [
        each for file in sorted((DEPLOY / "kubernetes").iterdir()) for each in _documents(file)
    ]
    there = {(each["kind"], each["metadata"]["name"]) for each in found}
    for each in found:
        for kind, name in _references(each):
            if (kind, name) not in there:
                yield f"kubernetes/: there is no {kind} {name}"


def _references(value: Any, kind: str = "") -> Iterator[tuple[str, str]]:
    kinds = {
        "configMap": "ConfigMap",
        "configMaps": "ConfigMap",
        "secretKeyRef": "Secret",
        "serviceAccount": "ServiceAccount",
        "claimName": "PersistentVolumeClaim",
        "secretName": "Secret",
        "subjects": "ServiceAccount",
        "roleRef": "Role",
    }
    if isinstance(value, dict):
        for key, item in value.items():
            if kind and key == "name":
                yield kind, item
            yield from _references(item, kinds.get(key, ""))
    elif isinstance(value, list):
        for item in value:
            yield from _references(item, kind)
    elif kind in {"ServiceAccount", "PersistentVolumeClaim"} or (kind == "Secret" and value):
        yield kind, value


def differences() -> Iterator[str]:
    """Yield values that two files have, and that are not the same."""
    application = _document("kubernetes/spark-application.yaml")["spec"]
    lines = (ROOT / "conf/spark-cluster.conf").read_text(encoding="utf-8").splitlines()
    conf = dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))
    elsewhere = {
        "spark.driver.memory": application["driver"]["memory"],
        "spark.executor.memory": application["executor"]["memory"],
        "spark.executor.memoryOverhead": application["executor"]["memoryOverhead"],
        "spark.executor.cores": str(application["executor"]["cores"]),
        # The image has the environment.
        "spark.archives": conf["spark.archives"],
        "spark.pyspark.python": conf["spark.pyspark.python"],
    }
    for name, value in conf.items():
        if (application["sparkConf"] | elsewhere).get(name) != value.strip():
            yield f"kubernetes/spark-application.yaml: {name} differs from conf/spark-cluster.conf"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    dockerfile = (DEPLOY / "docker/Dockerfile").read_text(encoding="utf-8")
    for file in IMAGES:
        images = set(re.findall(r"image: (\S+)", (DEPLOY / file).read_text(encoding="utf-8")))
        for image in sorted(images):
            if not image.endswith(f":{project['version']}") or f"--tag {image} " not in dockerfile:
                yield f"{file}: docker/Dockerfile builds no image {image}"
    chart = _document(f"{CHART}/Chart.yaml")
    if {chart["version"], chart["appVersion"]} != {project["version"]}:
        yield f"{CHART}/Chart.yaml: the version is {project['version']}"
    locked = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    if f"\npyspark=={application['sparkVersion']} " not in locked:
        yield "kubernetes/spark-application.yaml: constraints.txt has another Spark"
    yield from _secrets_elsewhere(application)
    bundle = _document("databricks/databricks.yml")
    resources = (DEPLOY / f"databricks/resources/{NAME.replace('-', '_')}.yml").read_text("utf-8")
    for variable in sorted(
        set(re.findall(r"\$\{var\.(\w+)\}", resources)) ^ {*bundle["variables"]}
    ):
        yield f"databricks/: the variable {variable} is not used, or not there"


def _secrets_elsewhere(application: dict[str, Any]) -> Iterator[str]:
    """Yield the variables that a configuration refers to, and that nobody gives it."""
    config = (DEPLOY / "kubernetes/configmap.yaml").read_text(encoding="utf-8")
    given = _document("kubernetes/secret.yaml")["stringData"]
    for name in re.findall(r"env:(\w+)", config):
        for role in ("driver", "executor"):
            keys = {each["name"]: each["valueFrom"] for each in application[role]["env"]}
            if name not in given or keys.get(name, {})["secretKeyRef"]["key"] != name:
                yield f"kubernetes/: the {role} has no variable {name}"
    deployment = next(each for each in _documents(DEPLOYMENT) if each["kind"] == "Deployment")
    run, serve = deployment["spec"]["template"]["spec"]["containers"]
    if {each["name"] for each in run["env"]} != {*given} or "env" in serve:
        yield "kubernetes/deployment.yaml: `run` has all variables, and nobody else has"
    of_databricks = (DEPLOY / f"databricks/{NAME}.yaml").read_text(encoding="utf-8")
    resources = (DEPLOY / f"databricks/resources/{NAME.replace('-', '_')}.yml").read_text("utf-8")
    for name in re.findall(r"env:(\w+)", of_databricks):
        if f"{name}: " not in resources:
            yield f"databricks/: no cluster has the variable {name}"


def _documents(file: Path) -> list[Any]:
    read = yaml.safe_load_all(file.read_text(encoding="utf-8"))
    return [each for each in read if each is not None]


def _document(name: str) -> Any:
    (only,) = _documents(DEPLOY / name)
    return only


def main() -> int:
    """Print all faults; return the exit code."""
    found = []
    readme = (DEPLOY / "README.md").read_text(encoding="utf-8")
    linked = {(DEPLOY / link).resolve() for link in re.findall(r"\]\(([^)]+)\)", readme)}
    found += [f"README.md: there is no {path}" for path in sorted(linked) if not path.exists()]
    for file in sorted(DEPLOY.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            name = str(file.relative_to(DEPLOY))
            text = file.read_text(encoding="utf-8")
            found += [f"{name}: {fault}" for fault in faults(name, text)]
            if name != "README.md" and not linked & {file, *file.parents}:
                found.append(f"README.md: no row of {name}")
    for file in (ROOT / "Makefile", DEPLOY / "docker/Dockerfile"):
        found += [f"{file.name}: {fault}" for fault in installs(file.read_text(encoding="utf-8"))]
    for lock in ("constraints.txt", "constraints-build.txt"):
        if "://" in (ROOT / lock).read_text(encoding="utf-8"):
            found.append(f"{lock}: it names a host")
    found += [*objects(), *differences()]
    print("\n".join(found) or "deploy/ and Makefile: no fault found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
