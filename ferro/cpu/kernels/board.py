"""The places on the board that the team meets at: see Note [The board] in jit_team.py."""

# What several threads write stands on a cache line (8 numbers) of its own.
TICKET, NEXT, INSIDE, BUSY = 0, 8, 16, 24
LIMIT, CHUNKS, BODY, WORK = 32, 33, 34, 35
CALLS, ASLEEP, HALT = 40, 41, 42  # how often the sleepers have been called, how many there are, whether to go home
MUTEX, CONDITION = 48, 64
SIZE = 80
