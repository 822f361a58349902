"""The fields of a Harbor 1.4 `task.toml`, and what they must be.

Source: the task models of Harbor 0.26.0. Keys that the schema does not know are kept and written
back; `unknown_keys` reports them. A field's description is what a user is told to write there.
"""

from __future__ import annotations

import difflib
import tomllib
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from steelyard.tasks.explain import explain

SCHEMA_VERSION = "1.4"

NetworkMode = Literal["no-network", "public", "allowlist"]

_SECONDS = "a number of seconds above 0"
_STRINGS = "a list of strings"
_VARIABLES = "a table of strings"


class _Table(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class _NetworkPolicy(_Table):
    network_mode: NetworkMode | None = Field(
        default=None, description='"no-network", "public" or "allowlist"'
    )
    allowed_hosts: list[str] | None = Field(
        default=None, description='a list of host names, only beside network_mode = "allowlist"'
    )

    @model_validator(mode="after")
    def _hosts_need_an_allowlist(self) -> _NetworkPolicy:
        if self.allowed_hosts and self.network_mode != "allowlist":
            raise ValueError('allowed_hosts needs network_mode = "allowlist"')
        return self


class Author(_Table):
    name: str = Field(description="the author's name")
    email: str | None = Field(default=None, description="an email address")


class Package(_Table):
    """`[task]`: the task's name in the world."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$",
        description='a name of the form "organisation/task" (letters, digits, ".", "_", "-")',
    )
    version: str | None = Field(default=None, min_length=1, description="a version string")
    description: str = Field(default="", description="a string")
    authors: list[Author] = Field(default=[], description="a list of {name, email} tables")
    keywords: list[str] = Field(default=[], description=_STRINGS)


class Agent(_NetworkPolicy):
    timeout_sec: float | None = Field(default=None, gt=0, description=_SECONDS)
    user: str | int | None = Field(default=None, description="a user name or id")


class Healthcheck(_Table):
    command: str = Field(description="a shell command")
    interval_sec: float = Field(default=5.0, description=_SECONDS)
    timeout_sec: float = Field(default=30.0, description=_SECONDS)
    start_period_sec: float = Field(default=0.0, description="a number of seconds")
    start_interval_sec: float = Field(default=5.0, description=_SECONDS)
    retries: int = Field(default=3, description="a whole number")


class Tpu(_Table):
    type: str = Field(min_length=1, description="a TPU type")
    topology: str = Field(pattern=r"^[1-9]\d*(x[1-9]\d*)+$", description='a topology like "2x4"')


class McpServer(_Table):
    name: str = Field(description="the server's name")
    transport: Literal["sse", "streamable-http", "http", "stdio"] = Field(
        default="sse", description='"sse", "streamable-http" or "stdio"'
    )
    url: str | None = Field(default=None, description="the server's address")
    command: str | None = Field(default=None, description="the command that starts the server")
    args: list[str] = Field(default=[], description=_STRINGS)
    headers: dict[str, str] = Field(default={}, description=_VARIABLES)

    @model_validator(mode="after")
    def _transport_has_its_address(self) -> McpServer:
        if self.transport == "stdio" and not self.command:
            raise ValueError('transport "stdio" needs a command')
        if self.transport != "stdio" and not self.url:
            raise ValueError(f"transport {self.transport!r} needs a url")
        return self


class Environment(_NetworkPolicy):
    build_timeout_sec: float = Field(default=600.0, gt=0, description=_SECONDS)
    docker_image: str | None = Field(default=None, description="the name of a container image")
    os: Literal["linux", "windows"] = Field(default="linux", description='"linux" or "windows"')
    cpus: int | float | None = Field(default=None, gt=0, description="a number above 0")
    memory_mb: int | None = Field(default=None, gt=0, description="a whole number of MB above 0")
    storage_mb: int | None = Field(default=None, gt=0, description="a whole number of MB above 0")
    gpus: int | None = Field(default=None, ge=0, description="a whole number")
    gpu_types: list[str] | None = Field(default=None, description=_STRINGS)
    tpu: Tpu | None = Field(default=None, description="a table {type, topology}")
    env: dict[str, str] = Field(default={}, description=_VARIABLES)
    workdir: str | None = Field(default=None, pattern="^/", description="an absolute path")
    skills_dir: str | None = Field(default=None, description="a path in the environment")
    mcp_servers: list[McpServer] = Field(default=[], description="a list of MCP server tables")
    healthcheck: Healthcheck | None = Field(default=None, description="a table with a command")
    # The three names that older versions of the schema used.
    memory: str | None = Field(
        default=None, pattern=r"^[\d.]+[GMKgmk]$", description='a size like "2G"'
    )
    storage: str | None = Field(
        default=None, pattern=r"^[\d.]+[GMKgmk]$", description='a size like "2G"'
    )
    allow_internet: bool | None = Field(default=None, description="true or false")

    @field_validator("os", mode="before")
    @classmethod
    def _lower(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value


class Collect(_Table):
    command: str = Field(description="a shell command")
    service: str = Field(default="main", min_length=1, description="the name of a service")
    timeout_sec: float = Field(default=60.0, gt=0, description=_SECONDS)
    user: str | int | None = Field(default=None, description="a user name or id")


class VerifierSettings(_NetworkPolicy):
    """`[verifier]`."""

    timeout_sec: float = Field(default=600.0, gt=0, description=_SECONDS)
    env: dict[str, str] = Field(default={}, description=_VARIABLES)
    user: str | int | None = Field(default=None, description="a user name or id")
    environment_mode: Literal["shared", "separate"] | None = Field(
        default=None, description='"shared" or "separate"'
    )
    environment: Environment | None = Field(default=None, description="a table like [environment]")
    collect: list[Collect] = Field(default=[], description="a list of tables with a command")

    @model_validator(mode="after")
    def _shared_has_no_environment(self) -> VerifierSettings:
        if self.environment_mode == "shared" and self.environment is not None:
            raise ValueError('environment_mode = "shared" excludes [verifier.environment]')
        return self


class Solution(_Table):
    env: dict[str, str] = Field(default={}, description=_VARIABLES)


class Artifact(_Table):
    source: str = Field(description='a path in the environment, without ".."')
    destination: str | None = Field(default=None, description='a relative path, without ".."')
    exclude: list[str] = Field(default=[], description=_STRINGS)
    service: str | None = Field(default=None, description="the name of a service")

    @field_validator("source", "destination")
    @classmethod
    def _no_way_up(cls, value: str | None) -> str | None:
        if value is not None and ".." in value.split("/"):
            raise ValueError('".." would leave the folder')
        return value


class Step(_Table):
    name: str = Field(description="the step's folder name")
    agent: Agent = Field(default=Agent(), description="a table like [agent]")
    verifier: VerifierSettings = Field(
        default=VerifierSettings(), description="a table like [verifier]"
    )
    min_reward: float | dict[str, float] | None = Field(
        default=None, description="a number, or a table of numbers"
    )
    healthcheck: Healthcheck | None = Field(default=None, description="a table with a command")
    artifacts: list[str | Artifact] = Field(default=[], description="a list of paths or tables")


class HarborConfig(_Table):
    """A whole `task.toml`."""

    schema_version: str = Field(
        default=SCHEMA_VERSION, pattern=r"^1\.\d+$", description='a version from "1.0" to "1.4"'
    )
    version: str | None = Field(
        default=None, pattern=r"^1\.\d+$", description='a version from "1.0" to "1.4"'
    )
    source: str | None = Field(default=None, description="a string")
    multi_step_reward_strategy: Literal["mean", "final"] | None = Field(
        default=None, description='"mean" or "final"'
    )
    artifacts: list[str | Artifact] = Field(default=[], description="a list of paths or tables")
    task: Package | None = Field(default=None, description="a table with a name")
    metadata: dict[str, Any] = Field(default={}, description="a table")
    agent: Agent = Field(default=Agent(), description="a table")
    verifier: VerifierSettings = Field(default=VerifierSettings(), description="a table")
    environment: Environment = Field(default=Environment(), description="a table")
    solution: Solution = Field(default=Solution(), description="a table")
    steps: list[Step] | None = Field(default=None, description="a list of tables")


def parse_config(text: str, file: str) -> HarborConfig:
    """Reads the text of a `task.toml`; ValueError has one sentence per malformed field."""
    try:
        return HarborConfig.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{file}: this is not TOML ({error}); correct the syntax there") from None
    except ValidationError as error:
        raise ValueError(explain(error, HarborConfig, file)) from None


def unknown_keys(table: BaseModel, file: str, prefix: str = "") -> list[str]:
    """One sentence per key that the schema does not know, anywhere in the table."""
    found = []
    for key in table.model_extra or {}:
        close = difflib.get_close_matches(key, type(table).model_fields, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        found.append(f"{file}: {prefix}{key} is not a key of Harbor {SCHEMA_VERSION}, so it is "
                     f"kept but does nothing{hint}")  # fmt: skip
    for name in type(table).model_fields:
        value = getattr(table, name)
        for index, item in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(item, BaseModel):
                place = f"{name}[{index}]" if isinstance(value, list) else name
                found += unknown_keys(item, file, f"{prefix}{place}.")
    return found
