"""The Helm chart is the plain Deployment, made by helm itself, and its values change what they say.

helm is a Go module: where there is no Go it is not tried.
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobs.configuration.config import load
from kafka_metadata_history.command import NAME
from tests.support.go_programs import TOOLS, built
from tests.support.repository import ROOT

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / NAME
PLAIN = ("configmap", "deployment")
"""Files of deploy/kubernetes/ that the chart replaces. Objects of kind Secret are the user's."""
OF_HELM = {"checksum/config", "helm.sh/resource-policy"}
Objects = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(TOOLS / "helm", tmp_path_factory.mktemp("helm"), "tool")


def says(helm: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [helm, *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)


def rendered(helm: Path, *more: str, release: str = NAME) -> Objects:
    done = says(helm, "template", release, str(CHART), *more)
    assert done.returncode == 0, done.stderr
    return objects(done.stdout)


def objects(text: str) -> Objects:
    """Each object by kind and name, without helm's own annotations; configurations as what they
    mean.
    """
    found: Objects = {}
    for each in filter(None, yaml.safe_load_all(text)):
        if each["kind"] == "ConfigMap":
            each["data"] = {name: yaml.safe_load(inner) for name, inner in each["data"].items()}
        pod = each["spec"].get("template", {}) if "spec" in each else {}
        for of in filter(None, (each["metadata"], pod.get("metadata"))):
            own = {
                key: value for key, value in of.pop("annotations", {}).items() if key not in OF_HELM
            }
            assert own == {}
        found[each["kind"], each["metadata"]["name"]] = each
    return found


def plain() -> Objects:
    texts = ((DEPLOY / "kubernetes" / f"{name}.yaml").read_text() for name in PLAIN)
    return objects("\n---\n".join(texts))


def containers(of: Objects, release: str = NAME) -> dict[str, dict[str, Any]]:
    pod = of["Deployment", release]["spec"]["template"]["spec"]
    return {each["name"]: each for each in pod["containers"]}


@pytest.mark.soak
def test_helm_finds_no_fault(helm: Path) -> None:
    done = says(helm, "lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout
    assert "WARNING" not in done.stdout


@pytest.mark.soak
def test_the_chart_is_the_plain_deployment(helm: Path) -> None:
    assert rendered(helm) == plain()


@pytest.mark.soak
def test_two_releases_share_nothing_but_secrets(helm: Path) -> None:
    other = rendered(helm, release="other")
    assert not other.keys() & plain().keys()
    selector = other["Deployment", "other"]["spec"]["selector"]
    assert selector["matchLabels"] == other["Service", "other"]["spec"]["selector"]
    assert selector["matchLabels"] == {"app.kubernetes.io/name": "other"}
    assert NAME not in {
        volume.get("persistentVolumeClaim", volume.get("configMap", {})).get("claimName")
        for volume in other["Deployment", "other"]["spec"]["template"]["spec"]["volumes"]
    }


@pytest.mark.soak
def test_values_change_what_they_say(helm: Path, tmp_path: Path) -> None:
    values = {
        "image": "history:2",
        "config": {"poll": {"pollInterval": "5s"}},
        "variables": {"from": "mine", "names": ["KAFKA_A", "KAFKA_B"]},
        "readers": {"from": "readers"},
        "serve": {"arguments": ["--some", "1,2: {}"]},
        "storage": {"size": "1Ti", "className": "fast"},
        "resources": {"run": {"limits": {"memory": "8Gi"}}},
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    found = rendered(helm, "--values", str(tmp_path / "values.yaml"))
    run, serve = containers(found)["run"], containers(found)["serve"]
    assert run["image"] == serve["image"] == "history:2"
    config = found["ConfigMap", NAME]["data"][f"{NAME}.yaml"]
    assert config["poll"] == {"pollInterval": "5s", "enrich": ["configs"]}
    keys = [(each["name"], *each["valueFrom"]["secretKeyRef"].values()) for each in run["env"]]
    assert keys == [(name, "mine", name) for name in ("KAFKA_A", "KAFKA_B")]
    assert serve["args"][-2:] == ["--some", "1,2: {}"]
    assert run["resources"]["limits"] == {"memory": "8Gi"}
    claim = found["PersistentVolumeClaim", NAME]["spec"]
    assert (claim["storageClassName"], claim["resources"]["requests"]["storage"]) == ("fast", "1Ti")
    volumes = found["Deployment", NAME]["spec"]["template"]["spec"]["volumes"]
    assert {"secretName": "readers", "defaultMode": 0o440} in [
        each.get("secret") for each in volumes
    ]


# --- without helm ---


def test_values_are_the_configuration_of_the_plain_deployment(tmp_path: Path) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values["config"] == plain()["ConfigMap", NAME]["data"][f"{NAME}.yaml"]
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values["config"]))
    assert set(load(str(tmp_path / "config.yaml")).clusters) == {"orders", "payments"}


def test_what_is_written_to_lies_on_a_volume() -> None:
    """The root of both containers is read only."""
    of = containers(plain())
    mounts = {name: {each["mountPath"]: each for each in of[name]["volumeMounts"]} for name in of}
    config = plain()["ConfigMap", NAME]["data"][f"{NAME}.yaml"]
    for path in (config["lake"], config["spool"], "/tmp", "/home/history"):  # noqa: S108
        place = max((each for each in mounts["run"] if path.startswith(each)), default="")
        assert place, path
        assert not mounts["run"][place].get("readOnly")
    assert mounts["serve"]["/lake"]["readOnly"] is True
    for each in of.values():
        assert each["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_server_has_tokens_and_no_secret_of_kafka() -> None:
    of = containers(plain())
    assert "env" not in of["serve"]
    arguments = of["serve"]["args"]
    tokens = yaml.safe_load((DEPLOY / "kubernetes" / "tokens.yaml").read_text())
    for option, key in (("--token", "token"), ("--metrics-token", "metrics-token")):
        assert arguments[arguments.index(option) + 1] == f"file:/etc/kafka/{key}"
        assert key in tokens["stringData"]
    assert arguments[arguments.index("--port") + 1] == "8484"
    assert [each["containerPort"] for each in of["serve"]["ports"]] == [8484]
    for probe in ("livenessProbe", "readinessProbe"):
        assert of["serve"][probe]["httpGet"] == {"path": "/healthz", "port": "http"}
