"""Registered versions of models: where a release of them was published, as tags and aliases.

The version is found by the product that it stands for; its bytes stay where they are. Two aliases point to it: one with
the release's version, which stays, and ``released``, which moves on with every release. Refuses nothing by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from registry.adapters.mlflow_store.client import Connection, connect
from registry.adapters.mlflow_store.tracker import PREFIX, PRODUCT
from registry.core.digests import Digest
from registry.core.publications import Publication

RELEASED: Final = "released"


class MlflowModels:
    """The registered models of an MLflow server or store. ``uri`` and ``make`` as of ``MlflowTracker``."""

    def __init__(self, root: Path, uri: str | None = None, make: Callable[[str], Any] = connect) -> None:
        self._at = Connection(root, uri, make)

    def mark(self, product: Digest, publication: Publication) -> str | None:
        """See ``registry.ports.RegisteredModels``."""
        if self._at.untouched:
            return None
        with self._at.writing():
            found = self._at.pages("search_model_versions", f"tag.`{PRODUCT}` = '{product}'")
            for version in found:
                self._mark(version, publication)
            return f"{found[0].name} {found[0].version}" if found else None

    def _mark(self, version: Any, publication: Publication) -> None:
        place = publication.place
        tags = {
            "hub": f"hf://{place.repository}@{publication.commit}",
            "hub-endpoint": place.endpoint,
            "hub-commit": publication.commit,
            "hub-tag": publication.tag or "-",
            "release": publication.name,
            "release-digest": str(publication.digest),
        }
        for key, text in tags.items():
            self._at.call("set_model_version_tag", version.name, version.version, f"{PREFIX}{key}", text)
        pinned = f"release-{re.sub(r'[^A-Za-z0-9]+', '-', publication.name.rpartition('@')[2])}"
        for alias in (pinned, RELEASED):
            self._at.call("set_registered_model_alias", version.name, alias, version.version)
