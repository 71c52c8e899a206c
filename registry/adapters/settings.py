"""Settings of some commit, from the bytes of its ``params.yaml``.

The bytes may come from a stranger's bundle. Refuses, by returning None, what is over a limit, is no YAML, or uses
aliases, with which a few lines can stand for gigabytes.
"""

from __future__ import annotations

import yaml

_MAXIMUM_BYTES = 4 * 2**20


def read_settings(data: bytes) -> object:
    """The settings as plain values, or None when nothing can be compared with them."""
    if len(data) > _MAXIMUM_BYTES:
        return None
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(data, Loader=yaml.CSafeLoader)):
            return None
        return yaml.CSafeLoader(data).get_single_data()
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
