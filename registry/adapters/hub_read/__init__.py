"""Reading repositories of a Hugging Face Hub: revisions, lists of files, ranges of bytes. Nothing is ever written."""

from registry.adapters.hub_read.hub import HubReader

__all__ = ["HubReader"]
