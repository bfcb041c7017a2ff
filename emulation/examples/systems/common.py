"""What the programs of the comparison share: the facts of the run, measurements, and the schedule of the task."""

import json
import os
import random
import signal
import struct
import threading
import time
from pathlib import Path

HOST = os.environ["EMULATE_HOST"]
SYSTEM = os.environ.get("system", "roost")
IS_SECURE = os.environ.get("tls", "on") == "on"
START = float(os.environ["EMULATE_START_MONOTONIC"])
OWN = Path(os.environ["EMULATE_FOLDER"])
# The keys of one run, which its hub makes and all hosts read: they share the files of the machine.
SHARED = OWN.parent / "shared"
PROVIDERS = {"p1": (27, 92), "p2": (40, 12)}
REQUESTERS = ("r1", "r2")

# The task, in seconds of the run.
JOINED = 12.0  # all are to be connected
REQUESTS_FROM, REQUESTS_TO = 15.0, 36.0
EVERY = 0.75  # mean time between two requests of a requester
TIMEOUT = 10.0
RETRY = 0.5  # pause after a quick failure
MESSAGES_FROM, MESSAGES = 16.0, 200
MESSAGE_EVERY = 0.1
END = 47.5

OBJECT_BYTES = 50_000
MESSAGE_BYTES = 200
# Random, so that no system gains by compression.
_random = random.Random(1)
ANSWER = _random.randbytes(64)
OBJECT = _random.randbytes(OBJECT_BYTES)

_lock = threading.Lock()


def now() -> float:
    return time.monotonic() - START


def wait_until(t: float) -> None:
    time.sleep(max(0.0, t - now()))


def wait_for(path: Path, until: float = JOINED) -> None:
    while not path.exists():
        if now() > until:
            raise SystemExit(f"{path} is not there")
        time.sleep(0.05)


def measure(name: str, **what: object) -> None:
    with _lock:
        print(json.dumps({"measure": name, **what}), flush=True)


def message(number: int) -> bytes:
    """A message: its number, and the time at which it was sent, by the clock that all hosts share."""
    head = struct.pack("!Id", number, now())
    return head + _random.randbytes(MESSAGE_BYTES - len(head))


def read_message(data: bytes) -> tuple[int, float]:
    number, sent = struct.unpack("!Id", data[:12])
    return number, sent


class Messages:
    """The messages that a subscriber has received, each once."""

    def __init__(self) -> None:
        self.delays: dict[int, float] = {}

    def add(self, data: bytes) -> None:
        number, sent = read_message(data)
        self.delays.setdefault(number, now() - sent)

    def report(self) -> None:
        for number in range(MESSAGES):
            delay = self.delays.get(number)
            measure("messages delivered", ok=delay is not None)
            if delay is not None:
                measure("message delay", value=round(delay * 1e3, 3), unit="ms", better="lower")


class Node:
    """One system's client of a host. Each system has a subclass."""

    def provide(self) -> None:
        """Offers answers and objects at this host's place."""
        raise NotImplementedError

    def publish(self, data: bytes) -> None:
        """Sends a message to all subscribers of this host."""
        raise NotImplementedError

    def request(self, provider: str, kind: str) -> bytes:
        """Requests `answer` or `object` of a provider's place, once. Raises an exception if there is none."""
        raise NotImplementedError

    def subscribe(self, provider: str, messages: Messages) -> None:
        """Receives the messages of a provider from now on."""
        raise NotImplementedError

    def close(self) -> None:
        pass


def _request(node: Node, provider: str, kind: str) -> None:
    began = now()
    expected = len(ANSWER) if kind == "answer" else OBJECT_BYTES
    is_ok = False
    # All systems try again alike if nobody answers.
    while not is_ok and now() - began < TIMEOUT:
        try:
            is_ok = len(node.request(provider, kind)) == expected
        except Exception as error:  # each system has errors of its own
            print(f"{now():.3f} {kind} of {provider}: {type(error).__name__}: {error}", flush=True)
        if not is_ok:
            time.sleep(RETRY)
    took = now() - began
    is_ok = is_ok and took <= TIMEOUT
    measure(f"{kind}s delivered", ok=is_ok)
    if is_ok:
        measure(f"{kind} delay", value=round(took * 1e3, 3), unit="ms", better="lower")


def run_requester(node: Node) -> None:
    messages = Messages()
    provider = list(PROVIDERS)[REQUESTERS.index(HOST) % len(PROVIDERS)]
    wait_until(JOINED)
    threading.Thread(target=node.subscribe, args=(provider, messages), daemon=True).start()
    draws = random.Random(int(os.environ["EMULATE_PROGRAM_SEED"]))
    threads, at, number = [], REQUESTS_FROM, 0
    while (at := at + draws.uniform(0.5, 1.5) * EVERY) < REQUESTS_TO:
        kind = "object" if number % 4 == 3 else "answer"
        wait_until(at)
        thread = threading.Thread(target=_request, args=(node, draws.choice(list(PROVIDERS)), kind), daemon=True)
        thread.start()
        threads.append(thread)
        number += 1
    for thread in threads:
        thread.join()
    wait_until(END - 1.0)
    messages.report()


def run_provider(node: Node) -> None:
    node.provide()
    for number in range(MESSAGES):
        wait_until(MESSAGES_FROM + number * MESSAGE_EVERY)
        node.publish(message(number))
    wait_until(END - 0.5)


def wait_for_end() -> None:
    """Waits until the run asks this program to end."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    ended.wait()
