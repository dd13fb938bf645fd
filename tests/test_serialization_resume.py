"""Checkpoints of a training: a resumed run is the uninterrupted one, bit by bit, and a killed save leaves the old file."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import ferro
from ferro.utils.data import DataLoader, TensorDataset

# Every optimiser, with settings under which it keeps all the state that it can.
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "ASGD": {},
    "Adadelta": {},
    "Adafactor": {},
    "Adagrad": {"lr_decay": 0.1},
    "Adam": {"amsgrad": True},
    "AdamW": {},
    "Adamax": {},
    "LBFGS": {"lr": 0.1, "max_iter": 3},
    "Muon": {},
    "NAdam": {},
    "RAdam": {},
    "RMSprop": {"momentum": 0.5, "centered": True},
    "Rprop": {},
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    "SparseAdam": {},
}


class Run:
    """A training with everything that has a state: dropout, shuffling, a scheduler, a scaler of losses."""

    def __init__(self, name: str, seed: int) -> None:
        ferro.manual_seed(seed)
        sparse = name == "SparseAdam"
        layers = (
            [ferro.nn.Embedding(8, 4, sparse=True)]
            if sparse
            else [ferro.nn.Linear(4, 4, bias=False), ferro.nn.BatchNorm1d(4)]
        )
        self.net = ferro.nn.Sequential(*layers, ferro.nn.Dropout(0.3))
        weights = [p for p in self.net.parameters() if p.dim() == 2]  # Muon takes matrices only
        self.optimizer = getattr(ferro.optim, name)(weights, **OPTIMIZERS[name])
        self.scheduler = ferro.optim.lr_scheduler.StepLR(self.optimizer, 1, gamma=0.7)
        self.scaler = ferro.amp.GradScaler(
            "cpu", init_scale=8.0, growth_interval=2, enabled=name not in ("LBFGS", "SparseAdam")
        )
        rows = ferro.arange(8)
        inputs = rows if sparse else ferro.sin(ferro.arange(32.0)).view(8, 4)
        self.order = ferro.Generator().manual_seed(seed)
        self.loader = DataLoader(TensorDataset(inputs, rows.float()), batch_size=4, shuffle=True, generator=self.order)
        self.parts = {"net": self.net, "optimizer": self.optimizer, "scheduler": self.scheduler, "scaler": self.scaler}

    def epoch(self) -> list[float]:
        losses = []
        for x, y in self.loader:

            def closure(x: Any = x, y: Any = y) -> Any:
                self.optimizer.zero_grad()
                loss = ((self.net(x).sum(1) - y) ** 2).mean()
                self.scaler.scale(loss).backward()
                return loss

            if self.scaler.is_enabled():
                losses.append(closure().item())
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                losses.append(self.optimizer.step(closure).item())
        self.scheduler.step()
        return losses

    def state(self) -> dict[str, Any]:
        states = {name: part.state_dict() for name, part in self.parts.items()}
        return {**states, "rng": ferro.get_rng_state(), "order": self.order.get_state()}

    def resume(self, state: dict[str, Any]) -> None:
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        ferro.set_rng_state(state["rng"])
        self.order.set_state(state["order"])


def test_the_table_names_every_optimizer() -> None:
    public = {name for name in ferro.optim.__all__ if isinstance(getattr(ferro.optim, name), type)}
    assert set(OPTIMIZERS) == {
        name for name in public if issubclass(getattr(ferro.optim, name), ferro.optim.Optimizer)
    } - {"Optimizer"}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_resumed_run_is_the_uninterrupted_one(name: str) -> None:
    whole = Run(name, 1)
    whole.epoch()
    file = io.BytesIO()
    ferro.save(whole.state(), file)
    losses = whole.epoch() + whole.epoch()
    resumed = Run(name, 2)
    file.seek(0)
    resumed.resume(ferro.load(file))
    assert resumed.epoch() + resumed.epoch() == losses
    for key, value in whole.net.state_dict().items():
        assert resumed.net.state_dict()[key].numpy().tobytes() == value.numpy().tobytes(), key


KILLED = """
    import os, signal, sys
    import ferro

    path, old, new = sys.argv[1], ferro.full((3000,), 1.0), ferro.full((5000,), 2.0)
    parts = ("serialization", "zipfile", "pathlib")  # whose lines are the points at which a save is killed

    def child(point):
        # Save, and die at the line of that number, or tell how many lines there were.
        lines = 0
        def trace(frame, event, argument):
            nonlocal lines
            if not any(part in frame.f_code.co_filename for part in parts):
                return None
            lines += event == "line"
            if lines == point:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace
        sys.settrace(trace)
        ferro.save(new, path)
        sys.settrace(None)
        return lines

    ferro.save(old, path)
    total = child(-1)
    outcomes = set()
    for point in sorted({1 + total * i // 24 for i in range(24)} | set(range(total - 12, total))):
        ferro.save(old, path)
        pid = os.fork()
        if not pid:
            child(point)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL, (point, status)
        found = ferro.load(path)
        assert found.equal(old) or found.equal(new), point
        outcomes.add(len(found))
    assert outcomes == {3000, 5000}, outcomes
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the test kills forked processes")
def test_a_killed_save_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path / "a.pt")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_a_save_that_fails_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.pt"
    ferro.save(1, path)
    path.chmod(0o640)

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("ferro.serialization.writing._add", full)
        with pytest.raises(OSError, match="No space left"):
            ferro.save(2, path)
    assert (ferro.load(path), list(tmp_path.iterdir())) == (1, [path])
    link = tmp_path / "link.pt"
    link.symlink_to(path)
    ferro.save(3, link)
    assert link.is_symlink()
    assert (ferro.load(path), path.stat().st_mode & 0o777) == (3, 0o640)
    with pytest.raises(RuntimeError, match=r"Parent directory .* does not exist"):
        ferro.save(1, tmp_path / "none" / "a.pt")
    ferro.save(1, "/dev/null")
