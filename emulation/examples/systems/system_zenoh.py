"""The task over Zenoh: a router on the hub's host, a client session on each other one."""

import json

import zenoh
from common import ANSWER, HOST, IS_SECURE, OBJECT, PROVIDERS, SHARED, TIMEOUT, Messages
from common import Node as BaseNode
from common import now, wait_for

LINK = "tls" if IS_SECURE else "tcp"


def _config(mode: str, **endpoints: list[str]) -> zenoh.Config:
    settings = {
        "mode": mode,
        # The router is known: nothing is sought by multicast.
        "scouting": {"multicast": {"enabled": False}},
        # All hosts share the memory of this machine: without this, large data would not cross the links.
        "transport": {"shared_memory": {"enabled": False}},
        **{key: {"endpoints": value} for key, value in endpoints.items()},
    }
    if mode == "client":
        # Clients try again for ever, first after half a second.
        retry = {"period_init_ms": 500, "period_max_ms": 2000, "period_increase_factor": 2}
        settings["connect"] |= {"timeout_ms": -1, "exit_on_failure": False, "retry": retry}
    if IS_SECURE:
        files = {f"{end}_{what}": str(SHARED / f"{HOST}.{file}") for end in ("listen", "connect")
                 for what, file in (("private_key", "key"), ("certificate", "pem"))}
        tls = {"root_ca_certificate": str(SHARED / "ca.pem"), "enable_mtls": True, "verify_name_on_connect": True}
        settings["transport"]["link"] = {"tls": tls | files}
    return zenoh.Config.from_json5(json.dumps(settings))


def run_hub() -> zenoh.Session:
    return zenoh.open(_config("router", listen=[f"{LINK}/0.0.0.0:7447"]))


class Node(BaseNode):
    def __init__(self) -> None:
        wait_for(SHARED / "ready")
        self.session = zenoh.open(_config("client", connect=[f"{LINK}/hub:7447"]))
        print(f"{now():.3f} open", flush=True)
        self.declared: list = []

    def provide(self) -> None:
        place = _place(HOST)
        for kind, data in (("answer", ANSWER), ("object", OBJECT)):
            key = f"{place}/{kind}"
            answer = lambda query, data=data: query.reply(query.key_expr, data)
            self.declared.append(self.session.declare_queryable(key, answer, complete=True))
        self.publisher = self.session.declare_publisher(
            f"{place}/messages",
            congestion_control=zenoh.CongestionControl.BLOCK,
            reliability=zenoh.Reliability.RELIABLE,
            express=True,
        )

    def publish(self, data: bytes) -> None:
        self.publisher.put(data)

    def request(self, provider: str, kind: str) -> bytes:
        replies = self.session.get(
            f"{_place(provider)}/{kind}", timeout=TIMEOUT, congestion_control=zenoh.CongestionControl.BLOCK, express=True
        )
        for reply in replies:
            if reply.ok is not None:
                return reply.ok.payload.to_bytes()
        raise LookupError("no reply")

    def subscribe(self, provider: str, messages: Messages) -> None:
        take = lambda sample: messages.add(sample.payload.to_bytes())
        self.declared.append(self.session.declare_subscriber(f"{_place(provider)}/messages", take))

    def close(self) -> None:
        self.session.close()


def _place(provider: str) -> str:
    x, y = PROVIDERS[provider]
    return f"place/{x}/{y}"
