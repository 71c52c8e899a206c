"""A collection of published figures of the ladder, in the layout of its collectors, as a document of facts.

The layout has ``sources``, ``common``, ``formulas``, ``rungs``, ``hero_segments``, ``rejected_trials``, ``data``,
``tolerances``, and pairs of claims about one ``item``, ``one`` and the ``other``. A pair is taken apart: each side
becomes a claim of its own under who says so, and whether they contradict is for the audit to find. Figures are copied,
never computed. Refuses a layout in which something of this is not where it should be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from registry.errors import Refused

MARKS: Final = frozenset(("rungs", "hero_segments", "contradictions_in_the_public_record"))
FAMILY, HERO, FORECAST = "marin", "marin/hero", "marin/forecast"
_CODE, _REPORTS, _LAUNCHES, _SAID = "code", "reports", "issue-8506", "statements"
_TABLE: Final = {
    "tokens": "tokens",
    "flops": "flops",
    "heads": "heads",
    "muonh_lr": "muonh_lr",
    "adam_lr": "adam_lr",
    "beta2": "beta2",
    "eps": "epsilon",
    "active_params": "active_parameters",
    "total_params": "total_parameters",
    "racks": "racks",
    "gpus": "gpus",
    "hidden": "hidden",
    "layers": "layers",
    "batch_sequences": "batch_sequences",
}
_CONSTANTS: Final = (
    "context_tokens",
    "head_dim",
    "routed_experts",
    "experts_per_token",
    "shared_experts",
    "expert_width",
    "latent_width",
    "sliding_window",
    "global_attention_every",
    "qk_mult",
    "capacity_factor",
    "logit_z_loss",
    "router",
    "gated_norm_rank",
    "short_conv_kernel",
    "schedule",
    "seed",
)
_FIGURE = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_UNITS: Final = {"T": "e12", "B": "e9"}

Table = Mapping[str, Any]
Thing = dict[str, Any]


def is_collection(value: object) -> bool:
    """Whether a JSON value has this layout."""
    return isinstance(value, Mapping) and value.keys() >= MARKS


def document(value: Table) -> dict[str, Any]:
    """The document of facts. Raises ``Refused`` when the layout is another."""
    try:
        return {
            "format": "reckon-facts",
            "schema": 1,
            "id": FAMILY,
            "title": str(value["what"]),
            "sources": _sources(value["sources"]),
            "things": [
                _family(value),
                _data(value),
                *_rungs(value),
                _hero(value),
                *_segments(value),
                *_trials(value),
                _forecast(value),
            ],
        }
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise Refused(
            f"This collection of figures is laid out in another way: {type(error).__name__} at {str(error)[:80]!r}.",
            remedy="Write it as a document of facts: see registry/README.md, 'Foreign records'.",
        ) from error


def _sources(told: Table) -> dict[str, str]:
    one, other = str(told["launcher"]), str(told["shapes"]).partition(" ")[2]
    return {
        "launcher": one,
        _CODE: f"{one} or {other}; which of the two was not noted",
        "mixture-log": told["mixture_log"],
        "issue-8435": told["hero"],
        _LAUNCHES: told["launches"],
        "issue-8890": "marin-community/marin issue 8890",
        _SAID: "public statements about the hero run, in several places",
        _REPORTS: "marin-community/marin: repository, issues and reports up to October 2026; "
        "the page of this figure was not noted",
    }


def _thing(name: str, role: str, ended: str, claims: Table, links: Sequence[Table] = ()) -> Thing:
    told = {source: dict(one) for source, one in claims.items() if one}
    return {"name": name, "role": role, "ended": ended, "claims": told, "links": list(links)}


def _link(bond: str, name: str, source: str, **more: object) -> Table:
    return {"bond": bond, "name": name, "source": source, **more}


def _family(value: Table) -> Thing:
    common = value["common"]
    axes = common["mesh_axes"]
    constants = {
        "vocabulary": common["vocab"],
        **{key: common[key] for key in _CONSTANTS},
        "last_layer_global": _word(common["last_layer_global"]),
        "grad_clip": _word(common["grad_clip"]),
        "ema": _word(common["ema"]),
        **{f"optimizer.{key}": text for key, text in common["optimizers"].items()},
        "mesh_axes": "; ".join(axes),
        "expert_axis": [axis.partition("=")[2] for axis in axes if axis.startswith("expert=")],
        **{f"formula.{key}": text for key, text in value["formulas"].items()},
    }
    tolerances = {f"tolerance.{key}": text for key, text in value["tolerances"].items()}
    return _thing(FAMILY, "family", "unknown", {_CODE: constants, _REPORTS: tolerances})


def _data(value: Table) -> Thing:
    data = value["data"]
    stores, tokens = _stores(value)
    pool = data["pool_tokens"].split()
    claims = {
        "mixture-log": stores["mixture-log"],
        _REPORTS: {
            **stores[_REPORTS],
            "store_tokens": [*tokens, {"value": data["after_dedup_tokens"], "note": "after deduplication"}],
            "pool_tokens": pool[0],
            "pool_sources": pool[2],
            "cells": data["cells"].split()[0],
            "cells_are": data["cells"].partition("= ")[2],
            "mixture_block_sequences": data["mixture_block_sequences"],
            "block_counts": data["note"],
            "shuffle": data["shuffle"],
            "tokenizer": data["tokenizer"],
        },
    }
    thing = _thing(_data_name(value), "data", "unknown", claims)
    if not data["redistributable"]:
        thing["absence"] = {"absence": "withheld", "reason": "its sources may not be redistributed", "digest": None}
    return thing


def _stores(value: Table) -> tuple[dict[str, dict[str, Any]], list[Any]]:
    """What is told of the stores behind the data's tag, by source, and of their tokens. The log names the hero's."""
    found: dict[str, dict[str, Any]] = {"mixture-log": {}, _REPORTS: {}}
    tokens = []
    for side in ("one", "other"):
        match = re.fullmatch(r"(\w+) for the (\w+) \(([0-9.]+)T\)", _pair(value, "data store").get(side, ""))
        if match:
            source = "mixture-log" if match[2] == "hero" else _REPORTS
            found[source]["store"] = {"value": match[1], "note": f"for the {match[2]}"}
            tokens.append({"value": f"{match[3]}e12", "note": f"{match[1]}, for the {match[2]}"})
    return found, tokens


def _pair(value: Table, begins: str) -> Table:
    """The pair of claims about an item; empty where nothing is told of it."""
    pairs = value["contradictions_in_the_public_record"]
    return next((one for one in pairs if one["item"].startswith(begins)), {})


def _data_name(value: Table) -> str:
    item = _pair(value, "data store").get("item", "")
    return f"{FAMILY}/data/{item.split()[-1]}" if item else f"{FAMILY}/data"


def _hero_rung(value: Table) -> Table:
    for one in value["rungs"].values():
        if "checkpoint" in one:
            return dict(one)
    raise KeyError("checkpoint")


def _row(rung: Table) -> dict[str, Any]:
    row = {quantity: rung[key] for key, quantity in _TABLE.items()}
    kv_heads = "/".join(str(heads) for heads in rung["kv_heads"])
    return {**row, "kv_heads": kv_heads, "label": rung["label"].removesuffix(" (hero)")}


def _rungs(value: Table) -> Iterator[Thing]:
    links = [_link("family", FAMILY, _CODE), _link("input", _data_name(value), _REPORTS)]
    for name, rung in value["rungs"].items():
        if "checkpoint" in rung:
            continue  # The hero: a run with segments of its own.
        claims = {
            "launcher": {"steps": rung["steps"]},
            _CODE: {**_row(rung), "phase_switch_step": rung["phase_switch_step"]},
            _REPORTS: {**_end(rung), **_trained(name, value), "status": rung["status"]},
        }
        yield _thing(f"{FAMILY}/rung/{name}", "rung", _ended(rung), claims, links)


def _ended(rung: Table) -> str:
    word = re.match(r"complete|partial|running", rung["status"])
    return word[0] if word else "unknown"


def _end(rung: Table) -> dict[str, Any]:
    """The final loss, or how far a rung came that has none."""
    if "final_paloma_macro_loss" in rung:
        return {"final_loss": {"value": rung["final_paloma_macro_loss"], "note": "Paloma, macro average"}}
    last = re.search(r"near step ([0-9]+)", rung["status"])
    found: dict[str, Any] = {"last_step": {"value": last[1], "about": True}} if last else {}
    return {**found, **{key: rung[key] for key in ("loss_at_80_percent",) if key in rung}}


def _trained(name: str, value: Table) -> dict[str, Any]:
    """The tokens that a rung is said to have seen, where a pair of claims tells of them."""
    pair = _pair(value, f"{name} tokens")
    return {"trained_tokens": _amount(pair["other"])} if pair else {}


def _hero(value: Table) -> Thing:
    rung = _hero_rung(value)
    kept = rung["checkpoint"]
    reached = re.search(r"about step ([0-9]+) \((.*)\)", rung["status"])
    claims: dict[str, dict[str, Any]] = {
        "launcher": {},
        _CODE: {**_row(rung), "steps": rung["steps"]},
        "mixture-log": {"phase_switch_step": rung["phase_switch_step"]},
        "issue-8435": {"status": rung["status"]},
        _SAID: {},
        _REPORTS: {
            "checkpoint_size": kept["size"],
            "checkpoint_objects": kept["objects"].split()[0],
            "permanent_checkpoint_every": kept["permanent_every_steps"],
            "permanent_checkpoint_at": kept["one_off"],
        },
        "issue-8890": {},
    }
    if reached:
        claims["issue-8435"]["reached_step"] = {"value": reached[1], "about": True, "note": reached[2]}
    for source, quantity, told in _pairs(value):
        claims[source][quantity] = told
    parts = [_link("part", name, _LAUNCHES) for name in _names(value)]
    trials = [_link("trial", name, _LAUNCHES) for name in _trial_names(value)]
    links = [_link("family", FAMILY, _CODE), *parts, _link("input", _data_name(value), "mixture-log"), *trials]
    return _thing(HERO, "run", _ended(rung), claims, [*links, _link("forecast", FORECAST, _REPORTS)])


def _pairs(value: Table) -> Iterator[tuple[str, str, Any]]:
    """Both sides of every pair about the hero, as (source, quantity, claim)."""
    pairs = {one["item"]: one for one in value["contradictions_in_the_public_record"]}
    for item, one in pairs.items():
        if item == "hero steps":
            yield "issue-8435", "steps", one["one"].rpartition(": ")[2]
            sources, _, steps = one["other"].rpartition(": ")
            yield from ((source.strip().replace(" ", "-"), "steps", steps) for source in sources.split(","))
        elif item == "hero tokens":
            yield _SAID, "tokens", {**_amount(one["one"]), "note": one["other"].partition("; ")[2]}
        elif item == "GPUs":
            yield _SAID, "gpus", _counted(one["one"])
            yield _REPORTS, "gpus", _counted(one["other"])
        elif item == "checkpoint objects":
            yield _REPORTS, "checkpoint_objects", one["one"]
            yield "issue-8890", "checkpoint_objects", one["other"].split()[0]


def _amount(text: str) -> dict[str, Any]:
    """``public statements: 18.75T`` and ``about 741B trained`` as a value with its exponent."""
    match = re.search(r"([0-9]+(?:\.[0-9]+)?)([TB])\b", text)
    if match is None:
        raise ValueError(text)
    return {"value": f"{match[1]}{_UNITS[match[2]]}", **({"about": True} if "about" in text else {})}


def _counted(text: str) -> dict[str, Any]:
    """``792 (11 racks of 72)`` as a value with its note."""
    figure = _FIGURE.match(text)
    if figure is None:
        raise ValueError(text)
    return {"value": figure[0], "note": text.partition("(")[2].rstrip(")")}


def _names(value: Table) -> list[str]:
    return [f"{HERO}/{number}" for number in range(1, len(value["hero_segments"]) + 1)]


def _segments(value: Table) -> Iterator[Thing]:
    names = _names(value)
    for at, segment in enumerate(value["hero_segments"]):
        first, last = segment["steps"]
        claims = {"first_step": first, **({} if last is None else {"last_step": last})}
        claims |= {key: segment[key] for key in ("run", "commit", "reason")}
        links = [] if segment["parent"] is None else [_handoff(names[at - 1], segment["parent"])]
        yield _thing(names[at], "segment", "running" if last is None else "complete", {_LAUNCHES: claims}, links)


def _handoff(name: str, parent: str) -> Table:
    """``step 58014 (temporary copy, no durable one now)`` as a link with what is told of its copies."""
    step = int(parent.split()[1])
    words = parent.partition("(")[2].rstrip(")")
    if "deleted" in words or "no durable" in words:
        return _link("parent", name, _LAUNCHES, step=step, absence={"absence": "lost", "reason": words})
    return _link("parent", name, _LAUNCHES, step=step, **({"kept": words} if words else {}))


def _trial_names(value: Table) -> list[str]:
    return [f"{HERO}/trial-{trial['run'].rpartition('-step')[2]}" for trial in value["rejected_trials"]]


def _trials(value: Table) -> Iterator[Thing]:
    """A trial began from the checkpoint of its first step: that of the segment which had come to it."""
    handoffs = {int(one["parent"].split()[1]): one["parent"] for one in value["hero_segments"] if one["parent"]}
    for name, trial in zip(_trial_names(value), value["rejected_trials"], strict=True):
        first, last = trial["steps"]
        at = max(n for n, one in enumerate(value["hero_segments"]) if one["steps"][0] < first)
        commit, _, later = trial["commit"].partition(", then ")
        claims = {"first_step": first, "last_step": last, "run": trial["run"], "commit": commit}
        claims |= {"outcome": trial["outcome"], **({"later_commit": later} if later else {})}
        link = _handoff(_names(value)[at], handoffs.get(first, f"step {first}"))
        yield _thing(name, "trial", "rejected", {_LAUNCHES: claims}, [link])


def _forecast(value: Table) -> Thing:
    hero = _hero_rung(value)
    note = "Paloma, macro average, at the end of the hero run"
    claims: dict[str, Any] = {"predicted_loss": {"value": hero["predicted_paloma_macro_loss"], "note": note}}
    links = []
    for name, rung in value["rungs"].items():
        if rung == hero:
            continue
        instead = rung["status"].partition("; ")[2].partition("scaling law is ")[2]
        correction = re.search(r"correction of ([0-9.]+)", instead)
        if correction:
            claims["hand_set_correction"] = correction[1]
        links.append(_link("rest", f"{FAMILY}/rung/{name}", _REPORTS, **({"kept": instead} if instead else {})))
    return _thing(FORECAST, "forecast", "unknown", {_REPORTS: claims}, links)


def _word(value: object) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
