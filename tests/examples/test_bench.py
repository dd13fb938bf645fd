"""The benchmarks' own machinery: what they time is what they say, and their figures are kept. No time is asserted."""

import dataclasses
import gc
import json

import numpy as np
import pytest

import ferro
from bench import cases, errors, harness, kernels, rows, run, workloads
from bench.harness import Job, Row, Table, Timing


def test_interleaving_alternates_jobs_and_measures_each_equally_often():
    order = []
    jobs = {"ferro": lambda: order.append("f"), "torch": lambda: order.append("t")}
    timings = harness.interleave(jobs, seconds=0.0, block_seconds=0.0)
    assert timings["ferro"].blocks == timings["torch"].blocks >= 4
    measured = "".join(order[8:])  # after 4 calls of each that warm up and calibrate
    assert measured.startswith("fttfft")
    for timing in timings.values():
        assert 0 < timing.best <= timing.median


def test_prepared_arguments_are_made_anew_and_used_once():
    made, used = [], []

    def prepare():
        made.append(len(made))
        return made[-1]

    harness.interleave({"ferro": Job(used.append, prepare)}, seconds=0.0, block_seconds=0.001)
    assert sorted(used) == made


def test_table_prints_and_records_ratios(capsys):
    table = Table("title")
    timings = {"ferro": Timing(1e-6, 3e-6, 5), "torch": Timing(2e-6, 4e-6, 5)}
    table.add(Row("both", timings, per=2, note="a note"))
    table.add(Row("alone", {"ferro": timings["ferro"]}))
    table.close()
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "title"
    assert lines[3].split() == ["both", "0.50", "1.00", "0.50", "0.75", "a", "note"]
    assert lines[4].split() == ["alone", "1.00", "-", "-", "-"]
    assert lines[5].split()[-2:] == ["0.50", "0.75"]
    both, alone = table.records()
    assert both["ratio_of_minima"] == pytest.approx(0.5)
    assert both["torch"]["median_us"] == pytest.approx(2.0)
    assert alone["ratio_of_minima"] is None


def test_figures_are_saved_as_json(tmp_path, capsys):
    args = harness.parser("test").parse_args(["--json", str(tmp_path / "figures.json"), "--threads", "1"])
    harness.save(args, {"ferro": ferro}, {"rows": [1, 2]})
    saved = json.loads((tmp_path / "figures.json").read_text())
    assert saved["rows"] == [1, 2]
    assert saved["versions"] == {"ferro": str(ferro.__version__)}
    assert saved["threads"] == 1
    assert saved["machine"]["processors"] >= 1


def nodes_behind(tensor):
    """The names of the recorded operations that lead to a tensor, without the leaves' accumulators."""
    seen, waiting = {}, [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if id(node) not in seen and node is not None and "AccumulateGrad" not in node.name():
            seen[id(node)] = node
            waiting += [behind for behind, _ in node.next_functions]
    return [node.name() for node in seen.values()]


@pytest.mark.parametrize("cycles", [1, 5])
def test_mixed_chain_has_the_operations_it_is_divided_by_and_stays_bounded(cycles):
    rng = np.random.default_rng(0)
    leaves = [ferro.from_numpy(rng.uniform(-0.5, 0.5, (4, 4)).astype(np.float32)).requires_grad_() for _ in range(3)]
    out = workloads.mixed(ferro, *leaves, cycles=cycles)
    assert len(nodes_behind(out)) == workloads.CYCLE * cycles
    assert float(out.detach().abs().max()) <= 8
    out.backward(ferro.ones(4, 4))
    for leaf in leaves:
        assert 1e-9 < float(leaf.grad.abs().max()) < 1e6


CHAINS = [c for c in rows.GROUPS["overhead"]() if isinstance(c, cases.Case) and c.repeat > 1 and c.state is None]


@pytest.mark.parametrize("case", CHAINS, ids=lambda case: case.name)
def test_small_operations_count_as_many_nodes_as_they_are_divided_by(case):
    running = cases.Running(ferro, dataclasses.replace(case, repeat=1))
    recorded = nodes_behind(running.recorded())
    # A comparison is an operation that is timed but not recorded.
    assert len(recorded) + ("x > 1.5" in case.name) == case.per


def test_every_row_has_a_name_of_its_own_in_its_group():
    for group, declared in rows.GROUPS.items():
        names = [(case.name, getattr(case, "backward_only", False)) for case in declared()]
        assert len(names) == len(set(names)), f"{group}: two rows of one name"


def test_rows_are_chosen_by_a_regular_expression_and_checked_before_they_are_timed(tmp_path, capsys):
    pytest.importorskip("torch", exc_type=ImportError)
    figures = tmp_path / "figures.json"
    wanted = ["--rows", r"^overhead: (tanh|SGD step)", "--seconds", "0", "--threads", "1", "--json", str(figures)]
    threads = ferro.get_num_threads()
    try:
        assert run.main(wanted) == 0
    finally:
        ferro.set_num_threads(threads)
        gc.unfreeze()
    names = [row["name"] for row in json.loads(figures.read_text())["overhead"]]
    assert names == ["tanh, forward", "tanh, forward + backward", "SGD step, 10 x 4x4"]
    assert "all numbers agreed" in capsys.readouterr().out


def test_kernels_notice_that_numbers_differ():
    torch = pytest.importorskip("torch", exc_type=ImportError)
    case = kernels.Case("exp", lambda lib, x: lib.exp(x), ((5,),))
    wrong = kernels.Case("exp", lambda lib, x: lib.exp(x) * (1.001 if lib is ferro else 1), ((5,),))
    running = {"ferro": kernels.Running(ferro, case), "torch": kernels.Running(torch, case)}
    assert kernels.disagreement(case, running) == ""
    running["ferro"] = kernels.Running(ferro, wrong)
    assert "result DIFFERS by 1.0e-03" in kernels.disagreement(wrong, running)


@pytest.mark.parametrize("label", errors.WRONG)
def test_wrong_calls_raise_what_pytorch_raises_with_a_sentence(label):
    kind, text = errors.answer(ferro, errors.WRONG[label])
    assert kind, f"{label} was accepted"
    assert len(text.split()) >= 4, f"{label} says only {text!r}"
    torch = pytest.importorskip("torch", exc_type=ImportError)
    expected = errors.answer(torch, errors.WRONG[label])[0]
    # A build of torch without CUDA says so with an AssertionError; ferro's is one, and a RuntimeError.
    assert kind == {"AssertionError": "NoDeviceError"}.get(expected, expected)


def test_inputs_of_a_case_are_the_same_for_every_engine():
    case = kernels.Case("pick", lambda lib, x, i: x[i], ((5, 2), (3,)), classes=5)
    for first, second in zip(case.arrays(), case.arrays(), strict=True):
        np.testing.assert_array_equal(first, second)
    assert case.arrays()[1].dtype == np.int64
