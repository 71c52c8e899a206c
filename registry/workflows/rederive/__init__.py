"""Re-derivation: ``planning`` says what will run, ``laying`` prepares its worktree, ``replaying`` runs and watches it,
``judging`` compares, ``telling`` writes the execution, ``rederiver`` does one after the other."""

from registry.workflows.rederive.planning import Plan, Planner, Request
from registry.workflows.rederive.rederiver import Rederived, Rederiver
from registry.workflows.rederive.yard import Shelf, Yard

__all__ = ["Plan", "Planner", "Rederived", "Rederiver", "Request", "Shelf", "Yard"]
