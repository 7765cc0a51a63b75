"""An application that uses the xDS client of gRPC's C core: it calls each target repeatedly,
and prints which backend answers.

    GRPC_XDS_BOOTSTRAP=<file> python3 client.py <milliseconds between calls> <target>…

Its output and its calls are described in ../grpc-client.ts.
"""

import json
import os
import signal
import sys
import threading
import time

import grpc

METHOD = "/grpc.health.v1.Health/Check"
SETTLED_AFTER = 20
CALL_TIMEOUT_S = 5

output = threading.Lock()


def tell(line):
    with output:
        print(json.dumps(line), flush=True)


def call(target, every_s, totals, stop):
    """Calls the target until `stop` is set."""
    last, streak = None, 0
    with grpc.insecure_channel(target) as channel:
        # Every field of a health check has its default: no bytes are a valid request.
        ask = channel.unary_unary(METHOD)
        while not stop.is_set():
            began = time.monotonic()
            try:
                _, rpc = ask.with_call(b"", timeout=CALL_TIMEOUT_S)
            except grpc.RpcError as error:
                totals["failed"] += 1
                streak = 0
                tell({"target": target, "error": f"{error.code().name}: {error.details()}"})
            else:
                answer = dict(rpc.initial_metadata()).get("answered-by", "")
                totals["answers"][answer] = totals["answers"].get(answer, 0) + 1
                streak = streak + 1 if answer == last else 1
                last = answer
                if streak == SETTLED_AFTER:
                    tell({"target": target, "settled": answer})
            stop.wait(max(0, began + every_s - time.monotonic()))


def main():
    every_s = int(sys.argv[1]) / 1000
    by_target = {target: {"failed": 0, "answers": {}} for target in sys.argv[2:]}
    stop = threading.Event()

    def die_with_parent():
        # The parent holds our stdin: the end of stdin is the end of the parent, even after SIGKILL.
        while os.read(0, 4096):
            pass
        os._exit(0)

    threading.Thread(target=die_with_parent, daemon=True).start()
    loops = [
        threading.Thread(target=call, args=(target, every_s, totals, stop))
        for target, totals in by_target.items()
    ]
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    for each in loops:
        each.start()
    for each in loops:
        each.join()
    tell({"totals": by_target})


main()
