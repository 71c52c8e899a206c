"""MLflow's registered version of a released product says where it was published, and aliases lead to it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.archives import report
from fakes.mlflow_stores import STORE, place

from registry.adapters.mlflow_store import MlflowModels, MlflowTracker
from registry.adapters.mlflow_store.client import connect
from registry.core.digests import sha256
from registry.core.publications import Place, Publication, Subject

PUBLICATION = Publication(
    subject=Subject.RELEASE,
    name="pocket@1.0.0",
    digest=sha256(b"release"),
    place=Place(endpoint="http://127.0.0.1:8000", repository="lab/pocket"),
    commit="a" * 40,
    tag="v1.0.0",
    branch="main",
    head="b" * 40,
    time="2026-11-30T12:00:00.000000Z",
)


def test_a_store_that_nobody_wrote_to_stays_unmade(tmp_path):
    assert MlflowModels(tmp_path).mark(sha256(b"product"), PUBLICATION) is None
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_version_learns_where_it_was_published(tmp_path):
    root = place(tmp_path)
    told = report(1)
    assert told.model is not None
    MlflowTracker(root).publish(told)
    models, client = MlflowModels(root), connect(f"sqlite:///{root / STORE}")
    for _ in range(2):
        assert models.mark(told.model.product, PUBLICATION) == f"{told.model.name} 1"
    version = client.get_model_version(told.model.name, "1")
    tags = {key.removeprefix("reckon."): text for key, text in version.tags.items()}
    assert (tags["hub"], tags["hub-tag"], tags["release"]) == (f"hf://lab/pocket@{'a' * 40}", "v1.0.0", "pocket@1.0.0")
    assert tags["hub-commit"] == "a" * 40
    for alias in ("released", "release-1-0-0"):
        assert client.get_model_version_by_alias(told.model.name, alias).version == version.version
    models.mark(told.model.product, replace(PUBLICATION, name="pocket@1.1.0", tag="v1.1.0"))
    aliases = client.get_registered_model(told.model.name).aliases
    assert set(aliases) == {"newest", "released", "release-1-0-0", "release-1-1-0"}
    assert models.mark(sha256(b"another"), PUBLICATION) is None
