"""A launcher with two workers that rename themselves and set variables; it serves its models at PORT."""

from __future__ import annotations

import http.server
import os
import signal
import sys

from setproctitle import setproctitle


def work(rank: int) -> None:
    setproctitle(f"worker:{rank}")
    os.environ["NCCL_CUMEM_ENABLE"] = "0"
    os.environ["PACED_RANK"] = str(rank)
    if rank:
        os.environ["PACED_ODD"] = "1"
    os.write(ready_w, b"r")
    signal.pause()


class Models(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"data": [{"id": "tiny"}]}'
        self.send_response(200 if self.path == "/v1/models" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


ready_r, ready_w = os.pipe()
for number in range(2):
    if os.fork() == 0:
        work(number)
os.read(ready_r, 1)
os.read(ready_r, 1)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Models).serve_forever()
