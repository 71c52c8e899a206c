"""Releases: built whole or not at all, made again from their own bundle, and refused for every reason that there is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import Ended
from support import exports
from support import harbour as harbours
from support.containers import write_safetensors
from support.harbour import Harbour
from support.voyage import safetensors

from registry.adapters.checkpoints import open_checkpoint
from registry.adapters.observers.releasing import check_export
from registry.adapters.signing import new_key
from registry.core import twins
from registry.core.codec import record_bytes
from registry.core.digests import sha256
from registry.core.dsse import Envelope
from registry.core.incidents import Incident, Kind
from registry.core.release import BUNDLE, CARD, CHECKPOINTS, CRATE, CURVE, SIGNATURE, STATEMENT, ReleaseStatement
from registry.errors import DoesNotHold
from train import tensorfile

pytestmark = pytest.mark.slow
Run = Callable[..., Ended]


@pytest.fixture(scope="session")
def anchored(tmp_path_factory: pytest.TempPathFactory) -> Harbour:
    """The archive that :func:`harbour` copies. Not to be touched."""
    return harbours.build(tmp_path_factory.mktemp("harbours") / "harbour")


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("keys") / "release.pem"
    new_key(place, None)
    return place


@pytest.fixture
def harbour(anchored: Harbour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harbour:
    made = harbours.copy(anchored, tmp_path / "harbour")
    monkeypatch.chdir(made.root)
    return made


@pytest.fixture(scope="session")
def released(anchored: Harbour, key: Path, tmp_path_factory: pytest.TempPathFactory) -> Harbour:
    """A copy with a release. Not to be touched."""
    yard = harbours.copy(anchored, tmp_path_factory.mktemp("released") / "harbour")
    command = [sys.executable, "-m", "registry", *yard.build(key)]
    place = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run(command, cwd=yard.root, env=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return yard


@pytest.fixture
def folder(released: Harbour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the release alone, far from its archive."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(released.release, tmp_path / "schooner"))


def statements(folder: Path) -> dict[str, dict]:
    files = sorted((folder / "provenance/stages").iterdir())
    return {file.name: dict(Envelope.parse(file.read_bytes()).view()) for file in files}


def edges(ended: Ended) -> dict[str, str]:
    return {edge["id"]: edge["state"] for edge in json.loads(ended.stdout)["edges"]}


def refused(harbour: Harbour, key: Path, reckon: Run, *, status: int = 2, **options: str) -> str:
    """Build, which must fail and leave nothing; the message."""
    ended = reckon(*harbour.build(key, **options), "--json")
    assert ended.status == status, ended.stderr
    assert not list((harbour.root / "artifacts").glob("releases/*/*"))
    assert not list((harbour.root / "manifests").glob("releases/*"))
    return json.loads(ended.stdout)["error"]["message"]


class TestFolder:
    """What lies in a release."""

    def test_all_parts_are_there_and_stated(self, released: Harbour) -> None:
        found = {
            file.relative_to(released.release).as_posix() for file in released.release.rglob("*") if file.is_file()
        }
        export = {file.name for file in (released.root / "artifacts/export").iterdir()}
        assert found >= {*export, BUNDLE, CARD, CHECKPOINTS, CRATE, CURVE, SIGNATURE, STATEMENT}
        for name in export:
            assert (released.release / name).read_bytes() == (released.root / "artifacts/export" / name).read_bytes()
        statement = ReleaseStatement.parse(Envelope.parse((released.release / STATEMENT).read_bytes()).payload)
        assert set(statement.files) == found - {STATEMENT, SIGNATURE}
        assert all(sha256((released.release / path).read_bytes()) == digest for path, digest in statement.files.items())

    def test_the_provenance_is_slsa_in_in_toto_and_has_no_gap(self, released: Harbour) -> None:
        from google.protobuf.json_format import ParseDict
        from in_toto_attestation.v1 import statement_pb2
        from in_toto_attestation.v1.statement import Statement

        told = statements(released.release)
        assert len(told) == len(harbours.STAGES)
        subjects = {
            (one["name"], *pair) for said in told.values() for one in said["subject"] for pair in one["digest"].items()
        }
        for said in told.values():
            Statement.copy_from_pb(ParseDict(said, statement_pb2.Statement())).validate()
            assert said["predicateType"] == "https://slsa.dev/provenance/v1"
            definition = said["predicate"]["buildDefinition"]
            assert definition["buildType"]
            assert said["predicate"]["runDetails"]["builder"]["id"]
            for one in definition["resolvedDependencies"]:
                if not one.get("uri", "").startswith(("git+", "pkg:")):
                    assert {(one["name"], *pair) for pair in one["digest"].items()} <= subjects

    def test_the_card_is_the_hubs(self, released: Harbour) -> None:
        from huggingface_hub import ModelCard

        card = ModelCard.load(released.release / CARD)
        assert card.data.license == "apache-2.0"
        assert card.data.pipeline_tag == "text-generation"
        assert [(one.metric_type, one.metric_value) for one in card.data.eval_results] == [("loss", 2.6)]
        for words in ("almanac", "hero/2@step-6", "on hand", "MIT", "2.6", "reckon audit"):
            assert words in card.text

    def test_the_checkpoints_are_those_of_the_run(self, released: Harbour) -> None:
        listed = json.loads((released.release / CHECKPOINTS).read_bytes())
        names = ["hero/1@step-2", "hero/1@step-4", "hero/2@step-6"]
        assert [one["name"] for one in listed] == names
        assert [one["tokens"] for one in listed] == [16, 32, 48]
        assert listed[-1]["branch"] == "stage2-step6-tokens0.000000048B"
        assert {one["commit"] for one in listed} == {None}

    def test_the_crate_refers_to_nothing_that_it_does_not_tell(self, released: Harbour) -> None:
        graph = json.loads((released.release / CRATE).read_bytes())["@graph"]
        told = {entity["@id"]: entity for entity in graph}
        assert len(told) == len(graph)
        assert told["./"]["conformsTo"]["@id"] in told
        actions = [entity for entity in graph if entity["@type"] == "CreateAction"]
        assert len(actions) == len(harbours.STAGES) + 1
        named = {one["@id"] for entity in actions for key in ("object", "result") for one in entity[key]}
        named |= {entity["instrument"]["@id"] for entity in actions} | {one["@id"] for one in told["./"]["hasPart"]}
        assert named <= told.keys()

    def test_two_builds_are_equal_but_for_the_models_signature(
        self, harbour: Harbour, released: Harbour, key: Path, reckon: Run
    ) -> None:
        ended = reckon(*harbour.build(key), "--json")
        assert ended.status == 0, ended.stderr
        for file in sorted(released.release.rglob("*")):
            if file.is_file() and file.name != SIGNATURE:
                assert (harbour.release / file.relative_to(released.release)).read_bytes() == file.read_bytes(), file
        records = [list((yard.root / "manifests/releases").iterdir()) for yard in (harbour, released)]
        assert [one.name for one in records[0]] == [one.name for one in records[1]]
        listed = json.loads(reckon("release", "list", "--json").stdout)["releases"]
        assert [one["name"] for one in listed] == ["schooner"]
        assert reckon("release", "show", "schooner@1.0.0").status == 0
        assert reckon("release", "show", "ketch").status == 2


class TestChecking:
    """Looking at a release far from its archive."""

    def test_it_holds(self, folder: Path, reckon: Run) -> None:
        ended = reckon("release", "verify", str(folder), "--json")
        assert ended.status == 0, ended.stdout
        assert edges(ended) == {
            "schooner@1.0.0+signature": "attested",
            "schooner@1.0.0+files": "verified",
            "schooner@1.0.0+input=export": "verified",
            "schooner@1.0.0+parent=hero/2@step-6": "claimed",
            "schooner@1.0.0+card": "verified",
        }

    def test_its_audit_goes_back_to_the_sources(self, folder: Path, reckon: Run) -> None:
        ended = reckon("audit", str(folder), "--json")
        assert ended.status == 0, ended.stdout
        found = edges(ended)
        assert found["export+weights"] == "verified"
        assert {"schooner@1.0.0+card", "hero/2+parent=hero/1@step-4", "data+record"} <= found.keys()
        told = reckon("audit", str(folder), "--explain", "schooner@1.0.0+signature")
        assert "model_signing verify" in told.stdout

    def test_in_its_archive_the_map_is_made_again(
        self, released: Harbour, reckon: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(released.root)
        ended = reckon("audit", "schooner@1.0.0", "--json")
        assert ended.status == 0, ended.stdout
        assert edges(ended)["schooner@1.0.0+parent=hero/2@step-6"] == "verified"

    @pytest.mark.parametrize("path", ["model.safetensors", CARD, BUNDLE, "provenance/stages/data.dsse.json"])
    def test_a_flipped_bit_is_found(self, folder: Path, reckon: Run, path: str) -> None:
        data = bytearray((folder / path).read_bytes())
        data[-1] ^= 1
        (folder / path).write_bytes(data)
        for command in (("release", "verify"), ("audit",)):
            ended = reckon(*command, str(folder), "--json")
            assert ended.status == 1, ended.stdout
            assert edges(ended)["schooner@1.0.0+files"] == "contradicted"

    def test_an_honest_maker_with_a_drifted_card_is_found(self, folder: Path, key: Path, reckon: Run) -> None:
        """Signed again over a card with other facts: the signature is good, and the records say otherwise."""
        resigned(folder, key, CARD, (folder / CARD).read_bytes().replace(b"| steps | 6 |", b"| steps | 9 |"))
        ended = reckon("release", "verify", str(folder), "--json")
        assert ended.status == 1
        assert edges(ended)["schooner@1.0.0+card"] == "contradicted"
        assert "README.md says something else" in ended.stdout

    def test_a_large_file_is_taken_by_its_second_digest(
        self, harbour: Harbour, key: Path, reckon: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        weights = harbour.release / "model.safetensors"
        monkeypatch.setattr(twins, "LEAST_BYTES", 64)
        assert reckon(*harbour.build(key)).status == 0
        assert weights.name in twins.parse((harbour.release / twins.FILE).read_bytes())
        for command, state in ((("release", "verify"), "attested"), (("audit",), "verified")):
            ended = reckon(*command, str(harbour.release), "--json")
            assert ended.status == 0, ended.stdout
            assert edges(ended)["schooner@1.0.0+input=export"] == state
            assert edges(ended)["schooner@1.0.0+card"] == "verified"
        weights.write_bytes(weights.read_bytes()[:-1] + b"!")
        ended = reckon("release", "verify", str(harbour.release), "--json")
        assert (ended.status, edges(ended)["schooner@1.0.0+files"]) == (1, "contradicted")

    def test_a_folder_that_nobody_signed_is_none(self, folder: Path, reckon: Run) -> None:
        (folder / SIGNATURE).unlink()
        assert reckon("release", "verify", str(folder)).status == 1


def resigned(folder: Path, key: Path, path: str, data: bytes) -> None:
    """Change a file of a release, and sign everything again."""
    from registry.adapters.signing import open_key, sign, sign_folder
    from registry.core.release import PAYLOAD_TYPE

    assert data != (folder / path).read_bytes()
    (folder / path).write_bytes(data)
    private = open_key(str(key), lambda: "")
    statement = ReleaseStatement.parse(Envelope.parse((folder / STATEMENT).read_bytes()).payload)
    changed = replace(statement, files={**statement.files, path: sha256(data)})
    (folder / STATEMENT).write_bytes(sign(PAYLOAD_TYPE, changed.payload, private).encode())
    (folder / SIGNATURE).unlink()
    sign_folder(folder, private)


class TestRefusals:
    """Each reason not to build has its own sentence, and leaves nothing."""

    def test_an_execution_with_uncommitted_code(self, harbour: Harbour, key: Path, reckon: Run) -> None:
        def dirty(one):
            return replace(one, revision=replace(one.revision, patch=sha256(b"x")))

        harbour.forge_execution("hero/1", dirty)
        harbour.commit()
        assert "Code that no commit holds" in refused(harbour, key, reckon)

    def test_uncommitted_changes_here(self, harbour: Harbour, key: Path, reckon: Run) -> None:
        harbour.write("train/ship.py", "print('elsewhere')\n")
        assert "The working tree has changes" in refused(harbour, key, reckon)

    def test_a_contradiction(self, harbour: Harbour, key: Path, reckon: Run) -> None:
        _, execution, product = harbour.head("words")
        outputs = tuple(replace(one, digest=sha256(b"other")) for one in product.outputs)
        other = harbour.records.put("product", record_bytes(replace(product, outputs=outputs)))
        earlier = replace(execution, product=other, attempt="20201130t120000z-00000000")
        harbour.records.put("execution", record_bytes(earlier))
        harbour.commit()
        assert "The lineage contradicts itself" in refused(harbour, key, reckon, status=1)

    def test_tainted_data_unless_a_reason_is_given(self, harbour: Harbour, key: Path, reckon: Run) -> None:
        taint = Incident(
            about="data",
            digest=harbour.head("data")[2].outputs[0].digest,
            incident=Kind.DATA_TAINT,
            first_step=None,
            last_step=None,
            text="the test set was inside",
            time="2026-11-30T12:00:00.000000Z",
        )
        harbour.records.put(Incident.KIND, record_bytes(taint))
        harbour.commit()
        assert "Tainted data reaches export: the test set was inside" in refused(harbour, key, reckon)
        ended = reckon(*harbour.build(key), "--accept-taint", "it is a demonstration", "--json")
        assert ended.status == 0, ended.stderr
        card = (harbour.release / CARD).read_text()
        assert "**Tainted data was accepted:** it is a demonstration" in card
        assert "the test set was inside" in card

    def test_a_reason_without_a_taint(self, harbour: Harbour, key: Path, reckon: Run) -> None:
        assert "No taint reaches export" in refused(harbour, key, reckon, **{"accept-taint": "why not"})

    def test_a_source_without_a_licence(self, harbour: Harbour, key: Path, reckon: Run) -> None:
        def unlicensed(recipe):
            [source] = recipe.config["data"]["sources"]
            kept = {name: value for name, value in source.items() if name != "licence"}
            return replace(recipe, config={"data": {**recipe.config["data"], "sources": [kept]}})

        harbour.forge_recipe("data", unlicensed)
        harbour.commit()
        assert "data takes almanac 1.0 and states no licence" in refused(harbour, key, reckon)

    def test_an_audit_that_does_not_hold(self, harbour: Harbour, key: Path, reckon: Run) -> None:
        harbour.flip("artifacts/data/code/train-00001.parquet")
        assert "The audit of export does not hold: data+bytes" in refused(harbour, key, reckon, status=1)

    def test_tensors_that_are_not_the_checkpoints(self, harbour: Harbour, key: Path, reckon: Run) -> None:
        harbour.flip("artifacts/export/model.safetensors")
        assert "The tensors of export" in refused(harbour, key, reckon, status=1)

    def test_another_checkpoint_under_the_name(self, harbour: Harbour, key: Path, reckon: Run) -> None:
        harbour.write("artifacts/hero/2/checkpoints/step-6/state.safetensors", safetensors([9, 9, 9, 9, 9, 9]))
        assert "was made from another hero/2@step-6" in refused(harbour, key, reckon, status=1)

    def test_a_checkpoint_that_is_not_here(self, harbour: Harbour, key: Path, reckon: Run) -> None:
        shutil.rmtree(harbour.root / "artifacts/hero/2/checkpoints/step-6")
        assert "hero/2@step-6 does not lie here" in refused(harbour, key, reckon)

    def test_settings_that_disagree(self, harbour: Harbour, key: Path, reckon: Run) -> None:
        place = harbour.root / "artifacts/export/config.json"
        place.write_text(json.dumps({**json.loads(place.read_bytes()), "eos_token_id": 7}))
        assert "disagree: config.json says eos_token_id 7" in refused(harbour, key, reckon, status=1)

    def test_a_secret_in_any_file(self, harbour: Harbour, key: Path, reckon: Run) -> None:
        token = "hf_" + "x" * 34
        harbour.write("card.md", harbour.read("card.md") + f"\nOur token is {token}.\n".encode())
        harbour.commit()
        message = refused(harbour, key, reckon)
        assert "a Hugging Face token" in message
        assert token not in message

    def test_versions_that_go_back_or_are_taken(self, harbour: Harbour, key: Path, reckon: Run) -> None:
        assert reckon(*harbour.build(key, version="1.2.0")).status == 0
        ended = reckon(*harbour.build(key, version="1.1.9"))
        assert (ended.status, "versions do not go back" in ended.stderr) == (2, True)
        ended = reckon(*harbour.build(key, version="1.2.0"))
        assert (ended.status, "a release is never overwritten" in ended.stderr) == (2, True)
        ended = reckon(*harbour.build(key, version="1.2.0", time="2026-12-01T00:00:00Z"), "-o", "elsewhere")
        assert (ended.status, "is on record as" in ended.stderr) == (2, True)
        assert not Path("elsewhere").exists()

    def test_files_that_are_too_large(
        self, harbour: Harbour, key: Path, reckon: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("registry.workflows.release.LARGEST_FILE", 1000)
        assert "too large for one file of a release" in refused(harbour, key, reckon)

    def test_pending_state_that_the_export_leaves_out(self, tmp_path: Path) -> None:
        small = exports.made(tmp_path)
        checked = check_export(small.export, small.checkpoint, open_checkpoint)
        assert [one.leaf for one in checked.tensor_map.left_out] == ["model/pending"]
        for name in ("model/pending", "pending_router_bias"):
            state = {**exports.state(), name: np.ones((), np.int32)}
            write_safetensors(small.checkpoint / "state.safetensors", state)
            source = {"name": "hero/2@step-7", "root": str(tensorfile.root(small.checkpoint / "state.safetensors"))}
            exports.altered_record(small, checkpoint=source)
            with pytest.raises(DoesNotHold, match=f"pending state that the export leaves out: {name}"):
                check_export(small.export, small.checkpoint, open_checkpoint)

    def test_what_is_no_export(self, harbour: Harbour, key: Path, reckon: Run) -> None:
        ended = reckon(*("words" if part == "export" else part for part in harbour.build(key)))
        assert (ended.status, "words is no export" in ended.stderr) == (2, True)
