"""A run whose policy tries to break out of the page that shows it."""

from __future__ import annotations

import json
from pathlib import Path

from steelyard.episodes import (
    Check,
    Episode,
    Group,
    Scored,
    Segment,
    StopReason,
    ToolCall,
    Trajectory,
    Turn,
)
from steelyard.store import RunStore, TokenFields

SCRIPT = "<script>window.broken = 'script'</script>"
IMAGE = "<img src=x onerror=\"window.broken = 'image'\">"
LINK = '<a href="javascript:window.broken=1">free credit</a>'
ANSI = "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J"
BIDI = "if access \u202e\u2066# admin\u2069 \u2066: return \u200badmin"
TASK = f"task-{IMAGE}"
EPISODE = f'step-1/"><svg onload="window.broken=2">/{SCRIPT}'


def episode(name: str, reward: float) -> Episode:
    segment = Segment()
    segment.append_context([1, 2, 3])
    segment.append_action([4, 5, 6, 7], [-0.5, -1.0, -0.25, -2.0], [0] * 4)
    segment.append_context([8, 9])
    segment.append_action([10, 11], [-0.125, -3.0], [0] * 2)
    write = ToolCall(
        f"write{IMAGE}", {"path": SCRIPT, f"text{LINK}": f"{IMAGE}{BIDI}"}, f"{ANSI} {SCRIPT}", True
    )
    return Episode(
        id=name,
        task=TASK,
        group="step-1/hostile",
        trajectory=Trajectory(
            [segment],
            [
                Turn(0, (3, 7), (7, 9), f"{SCRIPT}{IMAGE}", (write,)),
                Turn(0, (9, 11), (11, 11), f"{LINK} {ANSI} {BIDI}"),
            ],
        ),
        outcome=Scored(reward, (Check(f"check{IMAGE}", reward == 1.0, f"{SCRIPT}{ANSI}"),)),
        stop_reason=StopReason.SUBMITTED,
        heldout=Scored(0.0, (Check("held-out", False, IMAGE),)),
        files={f"a{IMAGE}.py": f"{SCRIPT}\n{BIDI}\n".encode()},
        seconds={"sampling": 1.0, f"x{IMAGE}": 0.5},
        kind=f"kind{SCRIPT}",
    )


def write_hostile_run(path: Path) -> None:
    with RunStore.start(path, {"model": {"path": f"model{IMAGE}"}}, model=IMAGE) as store:
        members = [episode(EPISODE, 1.0), episode("step-1/hostile/1", 0.0)]
        store.add_group(1, Group("step-1/hostile", TASK, members), "train", True)
        learned = TokenFields(
            EPISODE,
            0,
            prox_logp=[-0.5, -1.1, -0.25, -2.0, -0.1, -3.0],
            advantage=[1.0, 1.0, 1.0, 1.0, -2.0, -2.0],
            entropy=[0.5, 0.25, 0.125, 1.0, 0.5, float("nan")],
            log_ratio=[0.0, 0.1, -0.1, 0.0, 0.3, -0.3],
            limited=[False, False, False, False, True, True],
        )
        store.set_token_fields([learned])
        store.add_metrics(1, "rl", {f"metric{IMAGE}": 1.0, "entropy": 0.5}, version=1)
        store.add_event("audit", f"{IMAGE} {BIDI}")
        store.add_event(
            "alarm", f"the gap has grown {SCRIPT}", step=1,
            name=f"divergence{IMAGE}", evidence={f"gap{IMAGE}": SCRIPT}, episodes=[EPISODE],
            action=f"warn{IMAGE}",
        )  # fmt: skip
        finding = {
            "episode": EPISODE, "purpose": "train", "turn": 0, "scanner": "reads_tests",
            "text": IMAGE, "severity": SCRIPT,
        }  # fmt: skip
        (path / "findings.jsonl").write_text(json.dumps(finding) + "\n{half a li")
        store.finish("finished")
