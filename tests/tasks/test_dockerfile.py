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
        ("ADD a.py .", {"a.py": b"a"}),
        ("RUN mkdir -p src /srv && mkdir -p /app/lib\nCOPY a.py src", {"src/a.py": b"a"}),
        ("LABEL a=b\nEXPOSE 80\nMAINTAINER me\nARG X=1\nCOPY a.py .", {"a.py": b"a"}),
        ("", {}),
    ],
)
def test_copy_means_what_docker_means(dockerfile: str, expected: dict[str, bytes]) -> None:
    assert workspace(dockerfile) == expected


@pytest.mark.parametrize(
    ("dockerfile", "sentence"),
    [
        ("RUN make all", "line 3: RUN 'make all' is not supported; this sandbox understands pip"),
        ("RUN pip install pytest; rm -rf /app", "line 3: RUN .* is not supported"),
        ("RUN pip install pytest>3", "line 3: RUN .* is not supported"),
        ("RUN pip install $THINGS", "line 3: RUN .* is not supported"),
        ("RUN pip install no-such-package-x", "the package no-such-package-x, which this Python"),
        ("RUN pip install ./wheel.whl", "line 3: pip's './wheel.whl' is not supported"),
        ("RUN pip install --index-url http://x pytest", "pip's '--index-url' is not supported"),
        ("RUN pip install -r wanted.txt", "no COPY before this line lays 'wanted.txt'"),
        ("RUN pip install 'pytest", "cannot be read"),
        ("RUN apt-get install -y no-such-program", "this machine has no program no-such-program"),
        ("RUN apt-get source bash", "RUN apt-get source is not supported"),
        ("ADD https://example.org/a.py .", "line 3: ADD 'https://example.org/a.py .' is not"),
        ("ADD a.tar.gz .", "line 3: ADD 'a.tar.gz .' is not supported"),
        ("VOLUME /data", "line 3: VOLUME '/data' is not supported"),
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


@pytest.mark.parametrize(
    ("run", "packages"),
    [
        ("pip install --no-cache-dir -q pytest", ("pytest",)),
        ("pip3 install --upgrade pip && python -m pip install pytest", ("pytest",)),
        ("uv pip install --system 'pytest>=3' \"numpy<99\"", ("pytest>=3", "numpy<99")),
        ('["pip", "install", "pytest[dev]>=3,<99"]', ("pytest[dev]>=3,<99",)),
        ("apt-get update && rm -rf /var/lib/apt/lists/* && pip install \\\n  numpy", ("numpy",)),
        ("pip install -r wanted.txt", ("pytest", "numpy")),
    ],
)
def test_installed_packages_are_named(run: str, packages: tuple[str, ...]) -> None:
    files = {"wanted.txt": b"# for the tests\npytest\n\nnumpy  # arrays\n"}
    text = f"FROM python:3.12-slim\nWORKDIR /app\nCOPY wanted.txt .\nRUN {run}\n"
    found = workspace_of(files | {"Dockerfile": text.encode()}, "environment")
    assert found.packages == packages
    assert found.warnings == ()


def test_what_runs_otherwise_than_in_an_image_is_said() -> None:
    text = (
        "FROM python\nWORKDIR /app\nUSER root\nCMD sleep 1\nENTRYPOINT x\nRUN mkdir -p out\n"
        "RUN pip install pytest==0.1\nRUN apt-get update && apt-get install -y bash\n"
    )
    found = workspace_of({"Dockerfile": text.encode()}, "environment")
    said = [warning.partition(": ")[2] for warning in found.warnings]
    assert [text[:24] for text in said] == [
        "USER does nothing here: ",
        "CMD does nothing here: i",
        "ENTRYPOINT does nothing ",
        "the task asks for pytest",
        "nothing is installed; th",
        "the workspace holds file",
    ]


def test_without_a_dockerfile_every_file_is_in_the_workspace() -> None:
    assert workspace_of(FILES, "environment").files == FILES


@pytest.mark.parametrize("place", ["//tests", "/app/../tests", "//", "///usr/lib", "../tests"])
def test_no_spelling_of_a_reserved_folder_is_a_workspace(place: str) -> None:
    text = f"FROM python\nWORKDIR {place}\n".encode()
    for environment, override in (({"Dockerfile": text}, None), ({}, place)):
        with pytest.raises(ValueError, match="cannot be the workspace"):
            workspace_of(environment, "environment", override)


@pytest.mark.parametrize("place", ["//srv/w", "srv/w", "/srv//w/"])
def test_a_workspace_has_one_spelling(place: str) -> None:
    text = f"FROM python\nWORKDIR {place}\nCOPY a.py .\nCOPY a.py //srv/w/b.py\n".encode()
    found = workspace_of({"Dockerfile": text, "a.py": b"a"}, "environment")
    assert (found.working_directory, set(found.files)) == ("/srv/w", {"a.py", "b.py"})


def test_a_missing_workdir_is_refused() -> None:
    with pytest.raises(ValueError, match="it has no WORKDIR; add WORKDIR /app"):
        workspace_of({"Dockerfile": b"FROM python\n"}, "environment")
