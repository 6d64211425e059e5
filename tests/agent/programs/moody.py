"""A small server whose answers are its options: what health says, whether figures move, whether it computes.

moody.py PORT --health 200|503|hang --figures moving|late|still|none --burn --mute
"""

from __future__ import annotations

import argparse
import http.server
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("port", type=int)
parser.add_argument("--health", default="200")
parser.add_argument("--figures", default="none")
parser.add_argument("--burn", action="store_true")
parser.add_argument("--mute", action="store_true", help="never says that it is ready")
parser.add_argument("--gauge", type=float)
options = parser.parse_args()
began = time.monotonic()


def figures() -> str:
    """100 tokens a second of two requests at once; ``late`` counts them at the end of a request."""
    age = time.monotonic() - began
    moves, busy = options.figures in ("moving", "late"), options.figures != "still"
    lines = {
        "moody:running": 2 if busy else 0,
        "moody:waiting": 1 if busy else 0,
        "moody:tokens_total": 1000 + (100 * age if options.figures == "moving" else 0),
        "moody:steps_total": 500 + (50 * age if moves else 0),
    }
    if options.figures != "late":
        del lines["moody:steps_total"]
    if options.gauge is not None:
        lines["moody:speed"] = options.gauge
    return "".join(f"{name} {value}\n" for name, value in lines.items())


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/health" and options.health == "hang":
            time.sleep(60)
        known = {"/health": options.health}
        if options.figures != "none":
            known["/metrics"] = "200"
        body = figures().encode() if self.path == "/metrics" else b""
        self.send_response(int(known.get(self.path, "404")))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Its log is what it says itself."""


def burn() -> None:
    while True:
        sum(range(1000))


server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
if options.burn:
    threading.Thread(target=burn, daemon=True).start()
print("loading weights 40%" if options.mute else "ready", flush=True)
server.serve_forever()
