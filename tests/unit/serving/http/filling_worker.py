"""A worker that has memory for few answers: then it says so, or ends without a word."""

from __future__ import annotations

import os
import sys

from mayfly.serving.http.worker_messages import message_bytes, read_message


def main() -> None:
    source, target = sys.stdin.buffer, sys.stdout.buffer
    target.write(message_bytes({"status": 200}))
    target.flush()
    answers = 0
    while (message := read_message(source)) is not None:
        request, answers = message[0], answers + 1
        if answers <= request["enough_for"]:
            target.write(message_bytes({"status": 200, "process": os.getpid()}))
        elif request["silently"]:
            os._exit(1)
        else:
            target.write(message_bytes({"status": 422, "last": True}))
        target.flush()


if __name__ == "__main__":
    main()
