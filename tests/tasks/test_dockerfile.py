"""The Dockerfile subset: what it means, and what it refuses."""

from __future__ import annotations

import pytest

from steelyard.tasks.dockerfile import workspace_of

FILES = {"a.py": b"a", "app/b.py": b"b", "app/deep/c.py": b"c"}


def workspace(dockerfile: str, files: dict[str, bytes] = FILES) -> dict[str, bytes]:
    text = f"FROM python:3.12-slim\nWORKDIR /app\n{dockerfile}\n"
    return dict(workspace_of(files | {"Dockerfile": text.encode()}, "environment").files)


@pytest.mark.parametrize(
    ("dockerfile", "expected"),
    [
        ("COPY . .", FILES),
        ("COPY . /app", FILES),
        ("COPY app/ /app", {"b.py": b"b", "deep/c.py": b"c"}),
        ("COPY app .", {"b.py": b"b", "deep/c.py": b"c"}),
        ("COPY a.py /app/", {"a.py": b"a"}),
        ("COPY a.py /app", {"a.py": b"a"}),
        ("COPY a.py main.py", {"main.py": b"a"}),
        ("COPY a.py src/main.py", {"src/main.py": b"a"}),
        ('COPY ["a.py", "app/b.py", "/app/lib/"]', {"lib/a.py": b"a", "lib/b.py": b"b"}),
        ("COPY a.py \\\n  app/b.py \\\n  ./", {"a.py": b"a", "b.py": b"b"}),
        (
            "COPY app app\nCOPY a.py app",
            {"app/b.py": b"b", "app/deep/c.py": b"c", "app/a.py": b"a"},
        ),
        ("WORKDIR src\nCOPY a.py .\nWORKDIR ..", {"src/a.py": b"a"}),
        ("# a comment\n\ncopy a.py ./", {"a.py": b"a"}),
        ("", {}),
    ],
)
def test_copy_means_what_docker_means(dockerfile: str, expected: dict[str, bytes]) -> None:
    assert workspace(dockerfile) == expected


@pytest.mark.parametrize(
    ("dockerfile", "sentence"),
    [
        ("RUN pip install requests", "line 3: RUN 'pip install requests' is not supported"),
        ("USER nobody", "line 3: USER 'nobody' is not supported"),
        ("COPY --chown=1 a.py .", "line 3: COPY '--chown=1 a.py .' is not supported"),
        ("COPY *.py .", r"COPY '\*.py .' is not supported"),
        ("COPY b.py .", "COPY 'b.py' finds no such file"),
        ("COPY a.py /etc/a.py", "COPY puts /etc/a.py outside WORKDIR /app"),
        ("COPY ../a.py .", "COPY '../a.py' finds no such file"),
        ("COPY 'a.py .", "cannot be read"),
        ("FROM python AS two", "FROM 'python AS two' is not supported"),
        ("ENV A=$HOME", "write NAME=value"),
    ],
)
def test_the_rest_is_refused_with_its_line(dockerfile: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        workspace(dockerfile)


def test_variables_images_and_files_left_out() -> None:
    text = b'FROM ubuntu:24.04\nWORKDIR /app\nENV A="one two" B=3\nENV C four five\nCOPY app/ .\n'
    found = workspace_of(FILES | {"Dockerfile": text}, "environment")
    assert found.variables == {"A": "one two", "B": "3", "C": "four five"}
    assert len(found.warnings) == 2
    assert "'ubuntu:24.04'" in found.warnings[0]
    assert found.warnings[1].startswith("environment/a.py: no COPY names this file")


def test_without_a_dockerfile_every_file_is_in_the_workspace() -> None:
    assert workspace_of(FILES, "environment").files == FILES


def test_a_missing_workdir_is_refused() -> None:
    with pytest.raises(ValueError, match="it has no WORKDIR; add WORKDIR /app"):
        workspace_of({"Dockerfile": b"FROM python\n"}, "environment")
