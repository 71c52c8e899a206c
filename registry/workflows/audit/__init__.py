"""Auditing: ``auditor`` gathers evidence and judges it, ``looking`` hashes bytes and asks witnesses."""

from registry.workflows.audit.auditor import Auditor, Depth
from registry.workflows.audit.looking import AtHand, Live

__all__ = ["AtHand", "Auditor", "Depth", "Live"]
