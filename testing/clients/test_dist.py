"""Packages: the same program gives the same bytes twice, and what is in them runs."""

import os
import pathlib
import shutil
import subprocess

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "dist"

pytestmark = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("dpkg-deb", "objcopy", "cargo", "git")), reason="a tool is not installed"
)


def pack(out):
    command = [str(SCRIPT), "--binary", os.environ["ARBOR"], "--out", str(out), "--level", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env={**os.environ, "SOURCE_DATE_EPOCH": "1795000000"})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_packages_are_reproducible_and_complete(tmp_path):
    first = pack(tmp_path / "first")
    # another name of the directory, another time, another umask
    os.umask(0o077)
    try:
        assert pack(tmp_path / "second") == first
    finally:
        os.umask(0o022)
    (deb,) = (tmp_path / "first").glob("*.deb")
    root = tmp_path / "root"
    subprocess.run(["dpkg-deb", "--extract", str(deb), str(root)], check=True, timeout=120)
    listed = subprocess.run(["dpkg-deb", "--contents", str(deb)], capture_output=True, text=True, check=True, timeout=120).stdout
    assert all(line.split()[1] == "root/root" for line in listed.splitlines())
    shown = subprocess.run([root / "usr/bin/arbor", "--version"], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout.startswith("arbor ")
    for path in (
        "usr/share/man/man1/arbor.1.gz", "usr/share/man/man1/arbor-serve.1.gz", "usr/share/man/man1/arbor-doctor.1.gz",
        "usr/share/bash-completion/completions/arbor", "usr/share/zsh/vendor-completions/_arbor",
        "usr/lib/systemd/system/arbor.service", "etc/arbor.conf",
    ):
        assert (root / path).stat().st_size > 0, path
    # the configuration is one that the server takes
    checked = subprocess.run([root / "usr/bin/arbor", "doctor", "--config", root / "etc/arbor.conf", "--json"], capture_output=True, text=True, timeout=60)
    assert checked.returncode in (0, 1, 3) and '"findings"' in checked.stdout
    assert '"CycloneDX"' in next((tmp_path / "first").glob("*.sbom.json")).read_text()
    sums = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path / "first", capture_output=True, timeout=60)
    assert sums.returncode == 0


@pytest.mark.skipif(shutil.which("rpmbuild") is None, reason="rpmbuild is not installed")
def test_the_rpm_has_the_files_of_the_deb(tmp_path):
    pack(tmp_path / "out")
    (rpm,), (deb,) = (list((tmp_path / "out").glob(f"*.{kind}")) for kind in ("rpm", "deb"))

    def query(*arguments):
        command = ["rpm", "--dbpath", str(tmp_path / "db"), "-qp", *arguments, str(rpm)]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    listed = subprocess.run(["dpkg-deb", "--contents", str(deb)], capture_output=True, text=True, check=True, timeout=120).stdout
    files = {line.split()[-1].removeprefix(".") for line in listed.splitlines() if not line.startswith("d")}
    assert set(query("--list").split()) == files
    assert query("--configfiles").split() == ["/etc/arbor.conf"]
    owners = set(query("--queryformat", "[%{FILEUSERNAME}:%{FILEGROUPNAME}\\n]").split())
    assert owners == {"root:root"} and query("--queryformat", "%{BUILDHOST}") == "arbor"
    scripts = query("--scripts")
    assert "useradd --system" in scripts and "systemctl stop arbor.service" in scripts
    subprocess.run(["rpm2archive", str(rpm)], check=True, timeout=120)
    root = tmp_path / "root"
    root.mkdir()
    subprocess.run(["tar", "-xzf", f"{rpm}.tgz", "-C", str(root)], check=True, timeout=120)
    assert subprocess.run([root / "usr/bin/arbor", "--version"], capture_output=True, text=True, check=True, timeout=60).stdout.startswith("arbor ")
