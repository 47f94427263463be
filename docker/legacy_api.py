"""A payments API as many are: it books every POST it gets and has never heard of an Idempotency-Key.

For docker/compose.yaml and for trying oncegate by hand; needs nothing but Python. It listens on loopback only, so
that nothing gets around the gate beside it; HOST and PORT in the environment move it from 127.0.0.1:9000.

    POST /api/payments     books a payment, answers 201 (/payments is the same)
    GET  /api/payments     the ledger: what was really booked

A payment with "lose_answer": true is booked, and the connection then closed without an answer.
"""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PATHS = ("/api/payments", "/payments")
LEDGER = []
LOCK = threading.Lock()


class Payments(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "legacy-api"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path not in PATHS:
            return self.answer(404, {"error": "no such resource"})
        try:
            order = json.loads(body)
            amount = int(order["amount"])
        except (ValueError, KeyError, TypeError):
            return self.answer(400, {"error": "amount is missing"})
        with LOCK:
            payment = {"id": f"pay_{len(LEDGER) + 1}", "amount": amount}
            LEDGER.append(payment)
        if order.get("lose_answer"):
            self.close_connection = True
            return None
        return self.answer(201, payment, {"Location": f"/api/payments/{payment['id']}"})

    def do_GET(self):
        if self.path not in PATHS:
            return self.answer(404, {"error": "no such resource"})
        with LOCK:
            ledger = list(LEDGER)
        return self.answer(200, {"booked": len(ledger), "payments": ledger})

    def answer(self, status, document, headers=None):
        body = (json.dumps(document) + "\n").encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    address = (os.environ.get("HOST", "127.0.0.1"), int(os.environ.get("PORT", "9000")))
    print(f"legacy API on http://{address[0]}:{address[1]}", flush=True)
    try:
        ThreadingHTTPServer(address, Payments).serve_forever()
    except KeyboardInterrupt:
        pass
