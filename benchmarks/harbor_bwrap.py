"""A bubblewrap environment for Harbor: `harbor run --env harbor_bwrap:BubblewrapEnvironment`.

Needs Harbor 0.26 (Python 3.12) and bubblewrap; no Docker, no network. The host's /usr is the image,
and one Python of the host's is offered as python3, so it suits tasks that need no more than that.
A Dockerfile may hold FROM (whose image is ignored), WORKDIR, COPY of plain paths and ENV; any other
instruction is refused. Every command runs as the namespace's root, without capabilities, and all
that it started ends with it: an agent's background processes do not live until the verifier runs,
as they would in Docker. Every file goes in and out through a tar inside the namespace, so that a
link which an agent planted cannot lead out of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import shlex
import shutil
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

_HOST_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_HOST_FILES = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/etc/passwd")
_LOGS = ("/logs/agent", "/logs/verifier", "/logs/artifacts")
_TIMED_OUT = 124


class BubblewrapEnvironment(BaseEnvironment):
    """One folder of the host's as the root of all its commands; it is removed at `stop`.

    `python` is the interpreter to offer, and `python_prefix` the directory outside /usr that it
    needs, if any.
    """

    def __init__(self, *args: object, python: str, python_prefix: str | None, **kwargs: object):
        self._python = python
        self._python_prefix = python_prefix
        self._root: Path | None = None
        self._working_directory = "/"
        self._variables: dict[str, str] = {}
        super().__init__(*args, **kwargs)

    @staticmethod
    def type() -> str:
        return "bubblewrap"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True)

    def _validate_definition(self) -> None:
        if not self._network_disabled:
            raise ValueError("there is no network in here: network_mode must be no-network")
        if self.task_env_config.docker_image or not (self.environment_dir / "Dockerfile").is_file():
            raise ValueError(f"{self.environment_dir}: an environment/Dockerfile is needed")
        for keyword, rest in self._instructions():
            if keyword not in ("FROM", "WORKDIR", "COPY", "ENV"):
                raise ValueError(f"Dockerfile: {keyword} {rest} is not understood in here")

    async def start(self, force_build: bool) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="harbor-bwrap-"))
        for folder in (*_LOGS, "/root", "/tmp"):
            (self._root / folder[1:]).mkdir(parents=True)
        for path in filter(os.path.islink, _HOST_LINKS):
            (self._root / path[1:]).symlink_to(os.readlink(path))
        for keyword, rest in self._instructions():
            if keyword == "WORKDIR":
                self._working_directory = self._absolute(rest)
                await self._checked(["/bin/mkdir", "-p", self._working_directory], cwd="/")
            elif keyword == "COPY":
                await self._copy(shlex.split(rest))
            elif keyword == "ENV":
                self._variables |= dict(word.split("=", 1) for word in shlex.split(rest))
        self._variables |= self._startup_env()
        if self.task_env_config.workdir:
            self._working_directory = self.task_env_config.workdir

    async def stop(self, delete: bool) -> None:
        if self._root is not None:
            await asyncio.to_thread(shutil.rmtree, self._root, ignore_errors=True)
            self._root = None

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        target = PurePosixPath(target_path)
        await self._unpack({str(target.name): Path(source_path)}, str(target.parent))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await self._unpack({".": Path(source_dir)}, target_dir)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        source = PurePosixPath(source_path)
        with tempfile.TemporaryDirectory() as folder:
            await self._pack(str(source.parent), source.name, Path(folder))
            shutil.move(Path(folder) / source.name, target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        Path(target_dir).mkdir(parents=True, exist_ok=True)
        await self._pack(source_dir, ".", Path(target_dir))

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        wanted = self._resolve_user(user)
        if wanted not in (None, "root", 0):
            raise ValueError(f"there is only root in here, no user {wanted!r}")
        code, out, err = await self._run(
            ["/bin/bash", "-c", command],
            cwd=cwd or self._working_directory,
            env=self._merge_env(env) or {},
            timeout_seconds=timeout_sec,
        )
        return ExecResult(
            stdout=out.decode(errors="replace"), stderr=err.decode(errors="replace"),
            return_code=code,
        )  # fmt: skip

    def _instructions(self) -> list[tuple[str, str]]:
        """Keyword and rest of each instruction; continued lines are joined."""
        text = (self.environment_dir / "Dockerfile").read_text().replace("\\\n", " ")
        lines = [line.strip() for line in text.splitlines()]
        split = [line.partition(" ") for line in lines if line and not line.startswith("#")]
        return [(keyword.upper(), rest.strip()) for keyword, _, rest in split]

    def _absolute(self, path: str) -> str:
        return os.path.normpath(PurePosixPath(self._working_directory, path))

    async def _copy(self, words: list[str]) -> None:
        """A COPY of plain paths; a directory's content is copied, not the directory."""
        *sources, destination = words
        target = self._absolute(destination)
        into_folder = destination.endswith("/") or len(sources) > 1
        into_folder |= target == self._working_directory
        for name in sources:
            source = self.environment_dir / name
            if source.is_dir():
                await self.upload_dir(source, target)
            else:
                await self.upload_file(source, f"{target}/{source.name}" if into_folder else target)

    async def _unpack(self, members: dict[str, Path], target: str) -> None:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for name, path in members.items():
                tar.add(path, arcname=name)
        await self._checked(["/bin/mkdir", "-p", target], cwd="/")
        command = ["/bin/tar", "-x", "--no-same-owner", "-C", target, "-f", "-"]
        await self._checked(command, cwd="/", data=packed.getvalue())

    async def _pack(self, folder: str, name: str, target: Path) -> None:
        packed = await self._checked(["/bin/tar", "-c", "-C", folder, "-f", "-", name], cwd="/")
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            tar.extractall(target, filter="data")

    async def _checked(self, argv: list[str], *, cwd: str, data: bytes = b"") -> bytes:
        code, out, err = await self._run(argv, cwd=cwd, data=data)
        if code != 0:
            raise RuntimeError(f"{shlex.join(argv)}: {err.decode(errors='replace').strip()}")
        return out

    async def _run(
        self,
        argv: list[str],
        *,
        cwd: str,
        env: dict[str, str] | None = None,
        data: bytes = b"",
        timeout_seconds: float | None = None,
    ) -> tuple[int, bytes, bytes]:
        """Exit code, stdout and stderr of one command; 124 where its time was over."""
        process = await asyncio.create_subprocess_exec(
            *self._bubblewrap(cwd, env or {}), "--", *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            out, err = await asyncio.wait_for(process.communicate(data), timeout_seconds)
        except TimeoutError:
            return _TIMED_OUT, b"", b"timed out"
        finally:  # also when Harbor cancels this, as it does when a verifier's time is over
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        assert process.returncode is not None
        return process.returncode, out, err

    def _bubblewrap(self, cwd: str, env: dict[str, str]) -> list[str]:
        if self._root is None:
            raise RuntimeError("the environment is not running")
        arguments = [
            "bwrap", "--unshare-all", "--unshare-user", "--uid", "0", "--gid", "0",
            "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv",
            "--bind", str(self._root), "/", "--ro-bind", "/usr", "/usr",
        ]  # fmt: skip
        for path in _HOST_LINKS:
            if os.path.isdir(path) and not os.path.islink(path):
                arguments += ["--ro-bind", path, path]
        for path in _HOST_FILES:
            arguments += ["--ro-bind-try", path, path]
        if self._python_prefix is not None:
            arguments += ["--ro-bind", self._python_prefix, self._python_prefix]
        arguments += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/run"]
        for name in ("python", "python3"):
            arguments += ["--symlink", self._python, f"/run/bin/{name}"]
        variables = {
            "PATH": "/run/bin:/usr/local/bin:/usr/bin:/bin",
            "HOME": "/root",
            "LANG": "C.UTF-8",
            **self._variables,
            **env,
        }
        for name, value in variables.items():
            arguments += ["--setenv", name, value]
        return [*arguments, "--chdir", cwd]
