"""Reading repositories of a Hugging Face Hub: revisions, lists of files, ranges of bytes. Nothing is ever written."""

from registry.adapters.hub_read.hub import HubReader
from registry.adapters.hub_read.wire import same_origin

__all__ = ["HubReader", "same_origin"]
