"""The operations: one block per operation, one file per family."""
