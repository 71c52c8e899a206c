"""Repositories on disk in the layout of the Hugging Face client's cache: reading them, and making a mirror.

Whatever reads the client's cache reads a mirror too: set HF_HUB_CACHE to it, and HF_HUB_OFFLINE.
"""

from registry.adapters.hub_cache.reading import CacheReader, folder_name
from registry.adapters.hub_cache.writing import MirrorFolder

__all__ = ["CacheReader", "MirrorFolder", "folder_name"]
