"""The tape: operations, nodes, saved values, modes, apply and the engine.  It knows no particular operation."""
