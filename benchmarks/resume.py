"""kill −9 at random moments, resume, and compare the final weights with an uninterrupted run.

    python benchmarks/resume.py --kills 10        a few minutes on two cores

Uses a tiny random model, so that a run takes seconds; `run.deterministic = true`. Needs the train
extra and the embedded model's tokenizer.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from steelyard.store import RunDirectory, RunNotFound, RunReader, UnknownSchema

RUN_FILE = """\
[run]
name = "{name}"
directory = "runs"
deterministic = true

[model]
path = "model"

[tasks]
train = "prompts.jsonl"
dev = "prompts.jsonl"
reward = "rewards.py:score"

[agent]
max_turn_tokens = 24

[engine]
max_rows = 16
threads = 1

[learner]
threads = 1

[rl]
steps = 30
groups_per_step = 2
episodes_per_group = 4
learning_rate = 1e-2

[evaluation]
every_steps = 5
dev_samples = 1

[checkpoint]
every_steps = 2
"""


def make_model(directory: Path) -> None:
    """A random two-layer Llama in which one token in eight ends the turn."""
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    from steelyard.models import EMBEDDED, resolve

    tokenizer = resolve(EMBEDDED).tokenizer
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(directory)
    GenerationConfig(eos_token_id=list(range(2, len(tokenizer), 8))).save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def digest(run: Path) -> str:
    """A digest of the last checkpoint's weights and optimiser state."""
    directory = RunDirectory(run)
    last = directory.checkpoint(directory.checkpoint_steps()[-1])
    files = (last / name for name in ("model.safetensors", "optimizer.safetensors"))
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    moments = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_model(folder / "model")
        prompts = [
            {"prompt": f"Say {split} {i}.", "name": f"{split}-{i}", "split": split}
            for split in ("train", "dev")
            for i in range(4)
        ]
        (folder / "prompts.jsonl").write_text("\n".join(map(json.dumps, prompts)))
        (folder / "rewards.py").write_text(
            "def score(prompt, answer, **row):\n    return float(len(answer) % 2)\n"
        )
        for run in ("whole", "killed"):
            (folder / f"{run}.toml").write_text(RUN_FILE.format(name=run))
        train(folder, "whole", resume=False).wait()
        print(f"uninterrupted: {digest(folder / 'runs' / 'whole')}", flush=True)
        total = n_episodes(folder / "runs" / "whole")
        # By progress and not by the clock, so that a slow machine is not killed while it starts.
        targets = sorted(moments.randrange(total) for _ in range(arguments.kills))
        killed = folder / "runs" / "killed"
        kills = 0
        for target in targets:
            process = train(folder, "killed", resume=killed.exists())
            wait_for_episodes(killed, target, process)
            time.sleep(moments.uniform(0.0, 0.3))
            if process.poll() is not None:
                break
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            steps = RunDirectory(killed).checkpoint_steps()
            last = steps[-1] if steps else "none"
            print(f"kill {kills}: {n_episodes(killed)} of {total} episodes, last checkpoint {last}")
        train(folder, "killed", resume=True).wait()
        print(f"after {kills} kills:  {digest(folder / 'runs' / 'killed')}")
        same = digest(folder / "runs" / "whole") == digest(folder / "runs" / "killed")
        print("the same weights" if same else "DIFFERENT WEIGHTS")
        sys.exit(not same)


def train(folder: Path, name: str, *, resume: bool) -> subprocess.Popen[bytes]:
    command = [str(Path(sys.executable).with_name("steelyard")), "train", f"{name}.toml"]
    return subprocess.Popen(command + ["--resume"] * resume, cwd=folder, stdout=subprocess.DEVNULL)


def n_episodes(run: Path) -> int:
    with RunReader(run) as reader:
        return len(reader.episode_records())


def wait_for_episodes(run: Path, n: int, process: subprocess.Popen[bytes]) -> None:
    """Until the live process has recorded more than `n` episodes, or ends."""
    while process.poll() is None:
        with contextlib.suppress(RunNotFound, UnknownSchema), RunReader(run) as reader:
            if reader.is_live() and len(reader.episode_records()) >= n:
                return
        time.sleep(0.02)


if __name__ == "__main__":
    main()
