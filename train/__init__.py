"""Pipeline stages, each run as ``python -m train.<stage>`` from declared inputs to declared outputs."""
