"""One outside system a file. Adapters do not know each other; only ``registry.cli.wiring`` imports them."""
