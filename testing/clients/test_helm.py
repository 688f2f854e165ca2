"""The Helm chart: what helm says of it, and what it renders to. `HELM` names the program; without one the tests are skipped."""

import os
import pathlib
import shutil
import subprocess

import pytest
import yaml

CHART = pathlib.Path(__file__).resolve().parents[2] / "ops" / "helm" / "arbor"
HELM = os.environ.get("HELM") or shutil.which("helm")

pytestmark = pytest.mark.skipif(HELM is None, reason="helm is not installed")


def helm(*arguments):
    done = subprocess.run([HELM, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rendered(*arguments):
    text = helm("template", "db", CHART, "--namespace", "shop", "--kube-version", "1.30.0", *arguments)
    documents = {}
    for document in yaml.safe_load_all(text):
        documents[document["kind"], document["metadata"]["name"]] = document
    return documents


def test_the_chart_is_without_findings():
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART)


def test_a_set_of_three_is_rendered():
    documents = rendered()
    stateful = documents["StatefulSet", "db-arbor"]["spec"]
    pod = stateful["template"]["spec"]
    [container] = pod["containers"]
    environment = {variable["name"]: variable.get("value") for variable in container["env"]}
    members = environment["ARBOR_SET_MEMBERS"].split(",")
    assert stateful["replicas"] == len(members) == 3
    service = documents["Service", stateful["serviceName"]]["spec"]
    assert members[0] == f"db-arbor-0.{stateful['serviceName']}.shop.svc.cluster.local:27017"
    # etcd's ports are 1000 and 2000 above the server's
    assert service["clusterIP"] == "None" and service["publishNotReadyAddresses"]
    assert [port["port"] for port in service["ports"]] == [27017, 28017, 29017]
    # every file that a flag or a variable names is in the secret
    secret = documents["Secret", pod["volumes"][1]["secret"]["secretName"]]["data"]
    named = {text.rsplit("/", 1)[1] for text in [*container["args"], *filter(None, environment.values())] if "/run/secrets/arbor/" in text}
    assert named == set(secret) == {"key", "password", "token"}
    assert pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]
    assert container["image"] == "registry.example/arbor:0.1.0"


def test_the_flags_are_those_of_the_server(tmp_path):
    """As the container would start it, but for the files of the secret."""
    [container] = rendered()["StatefulSet", "db-arbor"]["spec"]["template"]["spec"]["containers"]
    for name in ("key", "token"):
        (tmp_path / name).write_text("x" * 32)
        (tmp_path / name).chmod(0o600)
    flags = [flag.replace("/run/secrets/arbor", str(tmp_path)) for flag in container["args"]]
    checked = subprocess.run(
        [os.environ["ARBOR"], "doctor", "--json", "--dbpath", str(tmp_path / "data"), *flags], capture_output=True, text=True, timeout=60)
    assert checked.returncode in (0, 1, 3) and '"findings"' in checked.stdout, checked.stderr


def test_settings_are_passed_on():
    documents = rendered(
        "--set", "members=5,port=30000,httpPort=0,auth.existingSecret=own,storage.className=fast", "--set", "extraFlags={--storageEngine=lmdb}")
    stateful = documents["StatefulSet", "db-arbor"]["spec"]
    pod = stateful["template"]["spec"]
    [container] = pod["containers"]
    assert stateful["replicas"] == 5 and not any(kind == "Secret" for kind, _ in documents)
    assert pod["volumes"][1]["secret"]["secretName"] == "own" and "--storageEngine=lmdb" in container["args"]
    assert "readinessProbe" not in container and not any("http" in flag for flag in container["args"])
    assert stateful["volumeClaimTemplates"][0]["spec"]["storageClassName"] == "fast"
    assert container["livenessProbe"]["exec"]["command"][-1] == "mongodb://127.0.0.1:30000"
