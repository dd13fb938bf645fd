"""Training steps by their memory plans, beside the same graphs without: time, and the memory that a step takes at its peak.

python bench/plans.py                     all steps
python bench/plans.py --only GPT --threads 1
"""

import statistics
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import harness
from bench.workloads import WORKLOADS, Trainer, initial_state
from ferro.graph import capture
from ferro.graph.interpreter import checked, execute
from ferro.graph.planning.bodies import Options
from ferro.graph.planning.plan import Plan

WIDTH = 46


def peak(call: Callable[[], Any]) -> int:
    """The most bytes of arrays that a call has at once, beyond those that were there before."""
    tracemalloc.start()
    try:
        call()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def main() -> None:
    args = harness.parser(__doc__.partition("\n")[0]).parse_args()
    (ferro,) = harness.begin(args, ("ferro",)).values()
    titles = ("nodes", "arena kB", "bound kB", "eager kB", "plan kB", "plan/eager", "plain us", "plan us", "plan/plain")
    print(f"{'':{WIDTH}}" + "".join([f"{t:>11}" for t in titles]))
    memory: list[float] = []
    time: list[float] = []
    for name, workload in WORKLOADS.items():
        if args.only not in name:
            continue
        state = initial_state(workload, ferro)
        eager, mine = Trainer(workload, ferro, state), Trainer(workload, ferro, state)
        batch = eager.load(next(workload.batches()))
        for _ in range(2):
            eager.step(*batch)
            mine.step(*batch)
        graph = capture(mine.step, *batch).optimise(differentiable=False)
        plan, given = Plan(graph, "serial", Options(), ahead=False), checked(graph, list(batch))
        for _ in range(3):
            plan.execute(given)
        jobs = {"plan": partial(plan.execute, given), "plain": partial(execute, graph, given)}
        best = {engine: t.best * 1e6 for engine, t in harness.interleave(jobs, args.seconds).items()}
        its = peak(partial(eager.step, *batch))
        own = peak(jobs["plan"]) + plan.arena_bytes - plan.lower_bound
        memory.append(own / its)
        time.append(best["plan"] / best["plain"])
        kilobytes = [f"{n / 1e3:11.1f}" for n in (plan.arena_bytes, plan.lower_bound, its, own)]
        figures = f"{memory[-1]:11.2f}{best['plain']:11.1f}{best['plan']:11.1f}{time[-1]:11.2f}"
        print(f"{name:{WIDTH}}{len(graph.nodes):11}{''.join(kilobytes)}{figures}", flush=True)
    means = f"{statistics.geometric_mean(memory):11.2f}{'':22}{statistics.geometric_mean(time):11.2f}"
    print(f"{'geometric mean':{WIDTH}}{'':55}{means}")


if __name__ == "__main__":
    main()
