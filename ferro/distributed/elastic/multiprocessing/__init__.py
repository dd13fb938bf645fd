"""Processes of an elastic job: how a program tells why it failed."""
