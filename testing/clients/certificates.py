"""Certificates for tests of TLS, made by openssl."""

import subprocess


def openssl(*arguments):
    return subprocess.run(["openssl", *arguments], check=True, capture_output=True, text=True).stdout


class Authority:
    """Signs certificates in a directory."""

    def __init__(self, directory, name, signed_by=None):
        self.directory, self.name = directory, name
        self.ca, self.key = directory / f"{name}.pem", directory / f"{name}.key"
        self.revoked = []
        ending = ["-addext", "basicConstraints=critical,CA:TRUE"]
        subject = ["-subj", f"/O=Test/CN={name}"]
        if signed_by is None:
            openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, *ending, "-keyout", str(self.key), "-out", str(self.ca))
            return
        certificate, self.key = signed_by.certificate(name, f"/O=Test/CN={name}", "basicConstraints=critical,CA:TRUE")
        self.ca.write_bytes(certificate.read_bytes())

    def certificate(self, name, subject, extension, days=2):
        request, certificate, key = (self.directory / f"{name}.{end}" for end in ("csr", "crt", "key"))
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-utf8", "-subj", subject, "-keyout", str(key), "-out", str(request))
        extensions = self.directory / f"{name}.ext"
        extensions.write_text(extension + "\n")
        openssl(
            "x509", "-req", "-days", str(days), "-in", str(request), "-CA", str(self.ca), "-CAkey", str(self.key), "-CAcreateserial",
            "-extfile", str(extensions), "-out", str(certificate),
        )  # fmt: skip
        return certificate, key

    def sign(self, name, alternative=None, subject=None, days=2, password=None):
        """Returns the file with certificate and key."""
        extension = f"subjectAltName={alternative}" if alternative else "basicConstraints=CA:FALSE"
        certificate, key = self.certificate(name, subject or f"/O=Test/CN={name}", extension, days)
        if password:
            encrypted = self.directory / f"{name}.encrypted"
            openssl("pkcs8", "-topk8", "-in", str(key), "-out", str(encrypted), "-passout", f"pass:{password}")
            key = encrypted
        both = self.directory / f"{name}.both"
        both.write_bytes(certificate.read_bytes() + key.read_bytes())
        both.chmod(0o600)
        return both

    def revoke(self, *files):
        """Writes the list of revoked certificates, and returns its file."""
        configuration, index = self.directory / f"{self.name}.cnf", self.directory / f"{self.name}.index"
        if not index.exists():
            index.write_text("")
            (self.directory / f"{self.name}.crlnumber").write_text("01\n")
        configuration.write_text(
            f"[ca]\ndefault_ca=own\n[own]\ndatabase={index}\ncrlnumber={self.directory / self.name}.crlnumber\n"
            "default_md=sha256\ndefault_crl_days=2\nunique_subject=no\n"
        )
        common = ["ca", "-config", str(configuration), "-cert", str(self.ca), "-keyfile", str(self.key)]
        for file in files:
            openssl(*common, "-revoke", str(file))
        revoked = self.directory / f"{self.name}.crl"
        openssl(*common, "-gencrl", "-out", str(revoked))
        return revoked


def subject_of(file):
    """Returns the subject as the name of a user."""
    return openssl("x509", "-in", str(file), "-noout", "-subject", "-nameopt", "RFC2253").strip().removeprefix("subject=").strip()


def flags(authority, certificate, mode="requireTLS", *more):
    return ["--tlsMode", mode, "--tlsCertificateKeyFile", str(certificate), "--tlsCAFile", str(authority.ca), *more]
