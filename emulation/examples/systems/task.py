"""Runs the part of a host in the comparison: `python3 task.py hub|provider|requester`.

The variable `system` says over what: roost, zenoh or nats.
"""

import importlib
import shutil
import sys
import time

import common
import keys


def run_hub(system) -> None:
    common.SHARED.mkdir(mode=0o700)
    try:
        if common.IS_SECURE and common.SYSTEM != "roost":
            keys.make()
        hub = system.run_hub()
        time.sleep(0.5)
        (common.SHARED / "ready").touch()
        common.wait_for_end()
        if hasattr(hub, "terminate"):
            hub.terminate()
            hub.wait()
    finally:
        # Keys do not stay in the results.
        shutil.rmtree(common.SHARED, ignore_errors=True)


def main() -> None:
    system = importlib.import_module(f"system_{common.SYSTEM}")
    role = sys.argv[1]
    if role == "hub":
        return run_hub(system)
    node = system.Node()
    (common.run_provider if role == "provider" else common.run_requester)(node)
    try:
        node.close()
    except BaseException as error:  # all is measured, and a broken connection need not close well
        print(f"close: {type(error).__name__}: {error}", flush=True)
    return None


main()
