"""The ``reckon`` command: one command a file, wiring in one place."""
