"""Asks peers.py's grader for the reward of a workspace: `grade_client.py SOCKET WORKSPACE`."""

import socket
import sys


def reward_of(address: str, workspace: str) -> str:
    """The reward as text, or the word unscored."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(address)
        line.sendall(workspace.encode() + b"\n")
        return line.makefile().readline().strip()


if __name__ == "__main__":
    reward = reward_of(sys.argv[1], sys.argv[2])
    solved = reward == "1.0"
    print(f"reward {reward}\nRESULT: {'PASS' if solved else 'FAIL'}")
    sys.exit(not solved)
