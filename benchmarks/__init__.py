"""What this archive costs, beside what a user would take instead. All in one run, on data made on the spot.

Run ``python -m benchmarks --help``. A suite is a module named in ``benchmarks.suites``.
"""
