"""The suites, in the order in which they run. Each is a module with ``comparisons(place) -> Iterator[Comparison]``."""

from __future__ import annotations

SUITES = ("hashing", "roots", "recording", "asking", "verifying", "pulling")
