"""Where in the work queue the workers find what, see Note [The work queue] in jit_work_queue.py; and what entries know of it."""

import numpy as np

# What several threads write stands on a cache line (8 numbers) of its own.
TICKET, INSIDE, BUSY = 0, 8, 16
LIMIT, CHUNKS, BODY, WORK = 24, 25, 26, 27
CALLS, ASLEEP, HALT = 32, 33, 34  # how often the sleepers have been called, how many there are, whether to end
MUTEX, CONDITION = 40, 56
NEXT = 72  # how many chunks of each thread's share have been taken
THREADS = 128
SIZE = NEXT + 8 * THREADS

# Machine code that Python calls without a queue (jit_entries.py) reads here where the queue is (0: nowhere yet), how many
# workers there are, how many threads may work at once, how many cores, how many runs of the pool are going
# on, and at which address there is a function that makes the workers and wakes them; and the array that the entry which is
# called next may write its result into (0: it makes one).
QUEUE, MEMBERS, BUDGET, CORES, RUNS, GATHER, WANTED = range(7)
SHARED = np.zeros(7, np.int64)
