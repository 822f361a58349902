"""Headless Chromium, driven over its DevTools protocol: what the viewer's tests look through."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

BINARY = next(
    (p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None
)


class Page:
    """One tab; `problems` collects console errors, exceptions and what its policy blocked."""

    def __init__(self, binary: str, width: int = 1360, height: int = 900) -> None:
        self.problems: list[str] = []
        self._folder = Path(tempfile.mkdtemp(prefix="chromium-"))
        self._process = subprocess.Popen(
            [
                binary, "--headless=new", "--no-sandbox", "--disable-gpu",
                "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-port=0",
                f"--user-data-dir={self._folder}", f"--window-size={width},{height}",
                "--remote-allow-origins=*", "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._next = 0
        self._open = ExitStack()
        self._socket = self._open.enter_context(connect(self._address(), max_size=None))
        targets = self._send("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        attached = self._send("Target.attachToTarget", targetId=target, flatten=True)
        self._session: str | None = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _address(self) -> str:
        port_file = self._folder / "DevToolsActivePort"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if port_file.exists() and len(lines := port_file.read_text().splitlines()) == 2:
                return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
            assert self._process.poll() is None, "Chromium ended before it listened"
            time.sleep(0.05)
        raise TimeoutError("Chromium did not open its debugging port within 60 s")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._send(method, self._session, **parameters)

    def _send(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        self._next += 1
        message: dict[str, Any] = {"id": self._next, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv(timeout=60))
            if answer.get("id") == self._next:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        method, given = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            detail = given["exceptionDetails"]
            self.problems.append(detail.get("exception", {}).get("description", detail["text"]))
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning"):
            self.problems.append(str([a.get("value") for a in given["args"]]))
        elif method == "Log.entryAdded" and given["entry"]["level"] == "error":
            self.problems.append(given["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.problems.append(f"a dialog: {given['message']}")
            self._send("Page.handleJavaScriptDialog", self._session, accept=True)

    def evaluate(self, expression: str) -> Any:
        result = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, expression: str, seconds: float = 30) -> Any:
        """The expression's value as soon as it is true."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            value = self.evaluate(expression)
            if value:
                return value
            time.sleep(0.03)
        text = self.evaluate("document.body.innerText")
        raise AssertionError(f"never true: {expression}\nproblems: {self.problems}\npage: {text}")

    def goto(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && document.getElementById('main')"
                  "?.dataset.ready > 0")  # fmt: skip

    def act(self, expression: str) -> None:
        """Runs what leads to another drawing of the page, and waits for that."""
        before = self.evaluate("document.getElementById('main').dataset.ready")
        self.evaluate(expression)
        self.wait(f"document.getElementById('main').dataset.ready !== '{before}'")

    def click(self, selector: str) -> None:
        self.act(f"document.querySelector({json.dumps(selector)}).click()")

    def press(self, key: str) -> None:
        code = {"ArrowRight": 39, "ArrowLeft": 37, "Enter": 13, "Escape": 27}.get(key)
        named = {"key": key, **({"windowsVirtualKeyCode": code} if code else {"text": key})}
        self.call("Input.dispatchKeyEvent", type="keyDown", **named)
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def text(self, selector: str = "#main") -> str:
        found = self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")
        assert isinstance(found, str)
        return found

    def screenshot(self, path: Path, *, full: bool = False) -> None:
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        self._open.close()
        self._process.terminate()
        self._process.wait(timeout=30)
        shutil.rmtree(self._folder, ignore_errors=True)
