#!/usr/bin/env python3
"""Logs in with the drivers for Node, Go and Java: by both kinds of SCRAM and by certificate, over TLS, and with wrong passwords.

    run.py [node] [go] [java]

ARBOR names the server's binary. Go fetches its driver through the module proxy, Maven from Maven Central; what they build goes into a
temporary directory.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TESTING = HERE.parent.parent
sys.path[:0] = [str(TESTING), str(TESTING / "clients")]

from certificates import Authority, flags, openssl  # noqa: E402

from arbor_process import Arbor  # noqa: E402

CERTIFICATE_USER = "CN=client,O=Clients"


def logins(port, authority, certificate, in_uri):
    """Connection strings, and who each of them is to be."""
    tls = "tls=true" + (f"&tlsCAFile={authority.ca}&tlsCertificateKeyFile={certificate}" if in_uri else "")
    here = f"127.0.0.1:{port}/?{tls}"
    expect = {}
    uris = {}
    for mechanism in ("SCRAM-SHA-1", "SCRAM-SHA-256"):
        uris[mechanism] = f"mongodb://admin:se%3Acret@{here}&authMechanism={mechanism}"
        uris[f"{mechanism} wrong"] = f"mongodb://admin:wrong@{here}&authMechanism={mechanism}"
        expect |= {mechanism: "admin", f"{mechanism} wrong": "error 18"}
    uris["negotiated"] = f"mongodb://admin:se%3Acret@{here}"
    uris["MONGODB-X509"] = f"mongodb://{here}&authMechanism=MONGODB-X509"
    return uris, expect | {"negotiated": "admin", "MONGODB-X509": CERTIFICATE_USER}


def node(directory, environment):
    # where its packages are
    return ["node", str(HERE / "logins.mjs")], environment, HERE.parent


def go(directory, environment):
    module = directory / "go"
    shutil.copytree(HERE / "go", module)
    environment |= {"GOFLAGS": "-mod=mod"}
    subprocess.run(["go", "mod", "tidy"], cwd=module, env=environment, check=True)
    subprocess.run(["go", "build", "-o", "logins", "."], cwd=module, env=environment, check=True)
    return [str(module / "logins")], environment, module


def java(directory, environment):
    project = directory / "java"
    shutil.copytree(HERE / "java", project)
    common = ["-Dfile.encoding=UTF-8"]
    for kind in ("keyStore", "trustStore"):
        path = directory / f"{kind}.p12"
        common += [f"-Djavax.net.ssl.{kind}={path}", f"-Djavax.net.ssl.{kind}Password=password", f"-Djavax.net.ssl.{kind}Type=PKCS12"]
    subprocess.run(["mvn", "-q", "-B", "compile", "dependency:copy-dependencies"], cwd=project, env=environment, check=True, stdin=subprocess.DEVNULL)
    classes = f"{project}/target/classes:{project}/target/dependency/*"
    return ["java", *common, "-cp", classes, "Logins"], environment, project


def main():
    chosen = sys.argv[1:] or ["node", "go", "java"]
    failed = []
    with tempfile.TemporaryDirectory(prefix="arbor-logins-") as temporary:
        directory = pathlib.Path(temporary)
        authority = Authority(directory, "authority")
        certificate = authority.sign("client", subject="/O=Clients/CN=client")
        server = authority.sign("server", "IP:127.0.0.1,DNS:localhost", "/O=Servers/CN=server")
        openssl("pkcs12", "-export", "-in", str(certificate), "-out", str(directory / "keyStore.p12"), "-passout", "pass:password")
        subprocess.run(
            ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(authority.ca), "-keystore", str(directory / "trustStore.p12"),
             "-storetype", "PKCS12", "-storepass", "password"], check=True, capture_output=True)  # fmt: skip
        with Arbor(directory / "data", flags(authority, server, "requireTLS", "--auth")) as arbor:
            import pymongo

            secure = {"tls": True, "tlsCAFile": str(authority.ca), "tlsCertificateKeyFile": str(certificate)}
            with pymongo.MongoClient(arbor.uri, **secure) as client:
                client.admin.command("createUser", "admin", pwd="se:cret", roles=["root"])
            with pymongo.MongoClient(arbor.uri, username="admin", password="se:cret", **secure) as client:
                client["$external"].command("createUser", CERTIFICATE_USER, roles=[{"role": "readWrite", "db": "test"}])
            for name in chosen:
                uris, expect = logins(arbor.port, authority, certificate, name != "java")
                command, environment, where = globals()[name](directory, {**os.environ, "LOGINS": json.dumps(uris)})
                done = subprocess.run(command, env=environment, cwd=where, capture_output=True, text=True, timeout=120)
                lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
                found = json.loads(lines[-1]) if lines else done.stderr[-2000:]
                passed = found == expect
                print(f"{name}: {'passed' if passed else 'FAILED'} {found}")
                if not passed:
                    failed.append(name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
