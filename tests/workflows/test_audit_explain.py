"""Every edge says how it can be checked by hand, and the commands do say what they should."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from registry.core.audit import by_hand
from registry.core.audit.by_hand import Step
from registry.core.audit.edges import Kind

HEX = re.compile(r"(?:sha256:)?([0-9a-f]{64})")


def edges(reckon, *arguments: str) -> dict[str, dict]:
    audit = json.loads(reckon("audit", "handoff", "--depth", "records", "--json", *arguments).stdout)
    return {edge["id"]: edge for edge in audit["edges"]}


def explained(reckon, edge: str) -> dict:
    ended = reckon("audit", "handoff", "--explain", edge, "--json")
    assert ended.status == 0, ended.stderr
    return json.loads(ended.stdout)


def one_of_each_kind(ids: list[str]) -> list[str]:
    chosen = {}
    for edge in ids:
        kind = edge.partition("+")[2].partition("=")[0]
        trained = edge.startswith("hero/2") or (kind not in chosen)
        if trained:
            chosen[kind] = edge
    return list(chosen.values())


def holds(step: dict, said: str) -> bool:
    """Whether a command said what was expected: nothing, a digest, a number, or the words of a record."""
    expected = step["expected"]
    digest = HEX.search(expected)
    if expected.startswith("nothing"):
        return said == ""
    if digest is not None:
        return digest[1] in said
    if expected.startswith("tree "):
        return expected.partition(";")[0] in said
    if expected.isdecimal():
        return said.strip() == expected
    return bool(said.strip())


@pytest.mark.slow
def test_every_kind_of_edge_can_be_checked_by_hand(built, reckon, monkeypatch):
    monkeypatch.chdir(built.root)
    chosen = one_of_each_kind(list(edges(reckon)))
    assert {edge.partition("+")[2].partition("=")[0] for edge in chosen} == {kind.value for kind in Kind} - {
        "attestation",
        "card",
        "figure",
        "files",
        "program",
        "signature",
        "tracker",
    }
    for edge in chosen:
        steps = explained(reckon, edge)["by_hand"]
        assert steps, edge
        for step in steps:
            done = subprocess.run(["bash", "-c", step["command"]], capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, ""), (edge, step)
            assert holds(step, done.stdout), (edge, step, done.stdout)


@pytest.mark.slow
def test_a_command_finds_what_the_audit_found(ship, reckon, monkeypatch):
    monkeypatch.chdir(ship.root)
    ship.flip("artifacts/data/code/train-00003.parquet")
    ended = reckon("audit", "handoff", "--explain", "data+bytes", "--depth", "bytes", "--json")
    told = json.loads(ended.stdout)
    assert (ended.status, told["state"], len(told["findings"])) == (1, "contradicted", 1)
    done = subprocess.run(["bash", "-c", told["by_hand"][0]["command"]], capture_output=True, text=True, check=False)
    assert "code/train-00003.parquet: FAILED" in done.stdout


def test_an_explanation_reads_well(built, reckon, monkeypatch):
    monkeypatch.chdir(built.root)
    shown = reckon("audit", "handoff", "--explain", "hero/2+parent").stdout
    assert "claimed" in shown
    assert "1. python3 -c " in shown
    assert "reckon root artifacts/hero/1/checkpoints/step-4" in shown


def test_an_unknown_edge_is_refused_with_the_nearest(built, reckon, monkeypatch):
    monkeypatch.chdir(built.root)
    ended = reckon("audit", "handoff", "--explain", "hero/2+transcripts")
    assert ended.status == 2
    assert "Nearest: hero/2+transcript" in ended.stderr


def test_hostile_names_stay_inside_their_quotes():
    """What a record calls its files is never run by whoever copies a command."""
    evil = "a'; touch owned; '$(touch owned)`touch owned`"
    step = Step(command=f"sha256sum {by_hand._path(evil)}", expected="")
    done = subprocess.run(
        ["bash", "-c", f"set -- {step.command}; printf '%s' \"$2\""], capture_output=True, text=True, check=True
    )
    assert done.stdout == evil
    assert by_hand._path("-rf") == "./-rf"
