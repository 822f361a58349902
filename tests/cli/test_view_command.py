"""`steelyard view` as a user starts it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

sys.path.append(str(Path(__file__).parents[1] / "monitor"))
from made_run import write_run

from steelyard.cli.main import app


def test_it_serves_a_run_on_the_loopback_address_alone_and_ends_with_ctrl_c(
    tmp_path: Path,
) -> None:
    write_run(tmp_path / "demo")
    before = {p.name: p.read_bytes() for p in (tmp_path / "demo").iterdir() if p.is_file()}
    program = "from steelyard.cli.main import app; app()"
    server = subprocess.Popen(
        [sys.executable, "-c", program, "view", str(tmp_path), "--port", "0"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        found = re.match(r"http://127\.0\.0\.1:(\d+)/", server.stdout.readline())
        assert found is not None
        with urllib.request.urlopen(f"{found.group()}api/demo/summary") as answer:
            assert json.load(answer)["name"] == "demo"
            assert "server" not in answer.headers
        with urllib.request.urlopen(f"{found.group()}r/demo/overview") as answer:
            assert b'<script type="module" src="/static/app.js">' in answer.read()
        listening = Path(f"/proc/{server.pid}/net/tcp").read_text().splitlines()
        port = f"{int(found.group(1)):04X}"
        own = [line.split()[1] for line in listening if line.split()[3] == "0A"]
        assert [address for address in own if address.endswith(f":{port}")] == [f"0100007F:{port}"]
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=60) in (0, 130)
    finally:
        server.kill()
        server.wait()
    after = {p.name: p.read_bytes() for p in (tmp_path / "demo").iterdir() if p.name in before}
    assert after == before


def test_a_port_in_use_and_a_missing_run_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "demo")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        busy = CliRunner().invoke(app, ["view", "demo", "--port", str(port)])
    assert busy.exit_code == 2
    assert f"port {port} of 127.0.0.1 cannot be used" in busy.stderr
    missing = CliRunner().invoke(app, ["view"])
    assert missing.exit_code == 2
    assert "no run at runs: neither it nor a folder directly in it" in missing.stderr
