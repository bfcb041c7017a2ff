"""TLS keys for the systems that do not make their own: an authority, and a certificate for each host."""

import subprocess

from common import PROVIDERS, REQUESTERS, SHARED


def _openssl(*args: object) -> None:
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True)


def make() -> None:
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    ca = (SHARED / "ca.pem", SHARED / "ca.key")
    _openssl("req", "-x509", *curve, "-keyout", ca[1], "-out", ca[0], "-days", 30, "-subj", "/CN=authority")
    for host in ("hub", *PROVIDERS, *REQUESTERS):
        key, request, certificate, names = (SHARED / f"{host}.{end}" for end in ("key", "csr", "pem", "ext"))
        names.write_text(f"subjectAltName=DNS:{host}\nextendedKeyUsage=serverAuth,clientAuth\n")
        _openssl("req", *curve, "-keyout", key, "-out", request, "-subj", f"/CN={host}")
        _openssl("x509", "-req", "-in", request, "-CA", ca[0], "-CAkey", ca[1], "-CAcreateserial", "-days", 30,
                 "-out", certificate, "-extfile", names)
