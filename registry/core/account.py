"""What a model card says of a release, written from its records: one piece of Markdown for each name of ``card.FACTS``.

Pure: the same evidence gives the same words. What records do not tell is said to be not on record, never guessed. All
words out of records are escaped. Refuses a run whose summary or evaluation is not at hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from registry.core import decimals
from registry.core.audit.evidence import EVALUATION, FORECAST, SUMMARY, TRANSCRIPT, Evidence, Node
from registry.core.audit.records import witnessed
from registry.core.canonical import Json
from registry.core.curve import Marked, draw
from registry.core.export import Export
from registry.core.forecast import Forecast
from registry.core.incidents import Event
from registry.core.markdown import code, commands, fields, number, plain, table
from registry.core.materials import materials
from registry.core.orderfacts import OrderFacts
from registry.core.release import CURVE, Terms
from registry.core.trajectory import Segment, facts, paper
from registry.core.transcript import merge, parse

_MOST_ROWS = 200
_MOST_DIGITS = 40
NOTHING = "Nothing is on record."


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """All that a card is written from. ``loading`` tells what was proved about loading the weights."""

    terms: Terms
    evidence: Evidence
    run: tuple[Segment, ...]
    export: Export
    loading: Mapping[str, Json]

    @property
    def last(self) -> Node:
        """The segment that the released checkpoint is of."""
        return self.run[-1].node

    def summary(self) -> Mapping[str, Json]:
        return facts(self.evidence, self.last, SUMMARY)

    def evaluation(self) -> Mapping[str, Json]:
        return facts(self.evidence, self.last, EVALUATION)

    def events(self) -> tuple[Event, ...]:
        """What happened to the run and all that it was made of, each once, by time."""
        found = {event: None for events in self._events() for event in events}
        return tuple(sorted(found, key=lambda event: (event.time, event.about, event.first_step or 0, event.text)))

    def _events(self) -> Iterator[tuple[Event, ...]]:
        for node in self.evidence.nodes.values():
            yield self.evidence.happened.events.get(node.digest, ())

    def taints(self) -> tuple[str, ...]:
        """Taints that reach the released artifact, in the words of who noted them."""
        found = self.evidence.happened.taints.get(self.terms.product, ())
        return tuple(f"{one.text} (by way of {' → '.join(one.via)})" for one in found)


def sections(account: Account) -> dict[str, str]:
    """Markdown for every name of ``card.FACTS``."""
    return {name: write(account) or NOTHING for name, write in _SECTIONS.items()}


def picture(account: Account) -> bytes:
    """The loss curve of the run."""
    told = [parse(paper(account.evidence, one.node, TRANSCRIPT)) for one in account.run]
    marked = [
        Marked(first=one.first_step, last=one.last_step, text=f"{one.label}: {one.text}")
        for one in account.events()
        if one.first_step is not None and one.last_step is not None
    ]
    title = f"{account.terms.identity}: {account.terms.weights.checkpoint}"
    return draw(title, merge(told), [one.last for one in account.run], marked)


def recorded_metadata(account: Account) -> dict[str, object]:
    """What the head of a card says from records: library, task and evaluation results in the Hub's own form."""
    results = [
        {
            "task": {"type": "text-generation", "name": "Text generation"},
            "dataset": {"type": _slug(f"heldout-{name}"), "name": f"held-out {name}"},
            "metrics": [{"type": "loss", "name": "held-out loss, nats per token", "value": float(loss)}],
        }
        for name, loss, _ in _losses(account)
    ]
    identity = account.terms.identity
    return {
        "library_name": account.export.architecture.library,
        "pipeline_tag": "text-generation",
        "model_name": identity.name,
        "model-index": [{"name": identity.name, "results": results}],
    }


def _title(account: Account) -> str:
    return f"# {plain(account.terms.identity.name)} {account.terms.identity.version}"


def _warnings(account: Account) -> str:
    if account.terms.accepted_taint is None:
        return "No taint of data reaches this release, and all code that made it stands in commits."
    told = "\n".join(f"- {plain(text)}" for text in account.taints())
    return f"**Tainted data was accepted:** {plain(account.terms.accepted_taint)}\n\n{told}"


def _summary(account: Account) -> str:
    told, export = account.summary(), account.export
    flops = str(told.get("flops", ""))[:_MOST_DIGITS]
    return fields(
        [
            ("architecture", code(export.architecture.name)),
            ("parameters", number(export.parameters)),
            ("active parameters", _integer(told.get("active_parameters"))),
            ("dtype", ", ".join(sorted({rule.target.dtype for rule in export.tensor_map.rules}))),
            ("vocabulary", number(export.agreed.vocabulary)),
            ("context", f"{number(export.agreed.positions)} tokens"),
            ("steps", number(account.run[-1].last)),
            ("tokens", number(account.run[-1].tokens(account.run[-1].last))),
            ("FLOPs", f"{number(int(flops))} ({Decimal(flops):.3e})" if flops.isdecimal() else "not on record"),
        ]
    )


def _curve(account: Account) -> str:
    return f"![Training loss by step]({CURVE})"


def _evaluation(account: Account) -> str:
    rows = [(code(name), loss, tokens) for name, loss, tokens in _losses(account)]
    text = f"Held-out loss in nats per token after {number(account.run[-1].last)} updates."
    return f"{text}\n\n{table(('domain', 'loss', 'tokens'), rows)}" if rows else ""


def _losses(account: Account) -> list[tuple[str, str, str]]:
    """Domain, loss and tokens of every evaluation, the macro average last."""
    told = account.evaluation()
    domains = told.get("domains")
    rows = []
    for name, one in sorted(domains.items()) if isinstance(domains, Mapping) else ():
        if isinstance(one, Mapping):
            rows.append((name, _decimal(one.get("loss")), _integer(one.get("tokens"))))
    macro = told.get("macro")
    if isinstance(macro, Mapping):
        rows.append(("macro average", _decimal(macro.get("loss")), ""))
    return rows


def _forecast(account: Account) -> str:
    evidence = account.evidence
    given = {evidence.part(output, FORECAST) for node in evidence.nodes.values() for output in node.own}
    made = [one for digest, one in evidence.forecasts.items() if isinstance(one, Forecast) and digest in given]
    mine = [one for one in made if one.predicts == account.last.product.stage]
    rows = []
    for one in mine:
        outcome = Decimal(_losses(account)[-1][1])
        error = decimals.subtract(outcome, one.interval.point)
        share = f"{one.interval.level * 100:f}".rstrip("0").rstrip(".")
        bounds = f"{one.interval.low} to {one.interval.high} ({share} %)"
        inside = "inside" if one.interval.holds(outcome) else "**outside**"
        rows.append((str(one.interval.point), bounds, str(outcome), decimals.write(error), inside))
    return table(("forecast", "interval", "outcome", "error", "the outcome lies"), rows)


def _data(account: Account) -> str:
    parts = [_mixture(one) for one in _orders(account)]
    return "\n\n".join(parts)


def _orders(account: Account) -> list[OrderFacts]:
    """The different data orders of the run's segments."""
    found: list[OrderFacts] = []
    for segment in account.run:
        known = [one.to_json() for one in found]
        if segment.order.to_json() not in known:
            found.append(segment.order)
    return found


def _mixture(order: OrderFacts) -> str:
    heads = [f"from step {number(phase.first_step)}" for phase in order.phases]
    rows = [
        (code(one.name), number(one.sequences), *(_told(phase.told, at) for phase in order.phases))
        for at, one in enumerate(order.components)
    ]
    text = (
        f"Sequences of {number(order.sequence_tokens)} tokens, {number(order.batch)} in a batch. "
        f"Whole sequences in each block of {number(order.block)}, and sequences on hand:"
    )
    return f"{text}\n\n{table(('component', 'on hand', *heads), rows)}"


def _told(counts: Sequence[int], at: int) -> str:
    return number(counts[at]) if at < len(counts) else "not on record"


def _training(account: Account) -> str:
    rows = []
    for one in account.run:
        told = facts(account.evidence, one.node, SUMMARY)
        commits = sorted({revision.commit[:12] for revision in one.node.revisions})
        rows.append(
            (
                code(one.node.product.stage),
                f"{number(one.first + 1)} to {number(one.last)}",
                plain(told.get("reason") or "not on record"),
                ", ".join(map(code, commits)),
                witnessed(one.node).label,
            )
        )
    return table(("segment", "steps", "why it began", "commit", "made again"), rows)


def _hardware(account: Account) -> str:
    rows = {
        (plain(host.get("processor") or "unknown"), _integer(host.get("cores")), _gigabytes(host.get("memory_bytes")))
        for one in account.run
        for host in (execution.host for _, execution in one.node.executions)
    }
    return table(("processor", "cores", "memory"), sorted(rows))


def _incidents(account: Account) -> str:
    events = account.events()
    rows = [(code(one.about), plain(one.label), plain(one.text)) for one in events[:_MOST_ROWS]]
    more = f"\n\n{number(len(events) - _MOST_ROWS)} more stand in the records." if len(events) > _MOST_ROWS else ""
    return f"{table(('about', 'what', 'text'), rows)}{more}" if rows else "None is on record."


def _licences(account: Account) -> str:
    stated = {one for node in account.evidence.nodes.values() if node.recipe for one in materials(node.recipe)}
    rows = [
        (code(one.name), plain(one.version), plain(one.licence or "none stated"), plain(one.domain or ""))
        for one in sorted(stated, key=lambda one: (one.name, one.version, one.sha256))
    ]
    return table(("source", "version", "licence", "used for"), rows)


def _proof(account: Account) -> str:
    rows = [(plain(name), plain(text)) for name, text in sorted(account.loading.items())]
    back = account.export.read_back
    how = "the checkpoint's, rounded to its dtype" if back.rounded else "those of the checkpoint"
    rows.append(("weights", f"made from the checkpoint by the map in {code('export.json')}; read back they are {how}"))
    rows += [(code(node.label), plain(witnessed(node).label)) for node in account.evidence.nodes.values()][:_MOST_ROWS]
    return table(("what", "proved"), rows)


def _identity(account: Account) -> str:
    terms = account.terms
    parent = "none: this is the first" if terms.parent is None else code(terms.parent)
    return fields(
        [
            ("made from", code(terms.weights.checkpoint)),
            ("tensor root of the checkpoint", code(terms.weights.checkpoint_root)),
            ("tensor root of the weights", code(terms.weights.root)),
            ("product", code(terms.product)),
            ("release before it", parent),
            ("built", f"{plain(terms.time)} at commit {code(terms.commit)}"),
        ]
    )


def _use(account: Account) -> str:
    identity = account.terms.identity
    place = f"hf://{identity.repository}@{identity.tag}"
    return commands(
        f"reckon pull {place} -o {identity.name}     # every byte verified before it gets its name",
        f"reckon audit {place} --records     # walk it back to its data and code, without the weights",
        f"reckon audit ./{identity.name}     # the same with the weights, in the folder that was pulled",
        f"reckon rederive {account.last.product.stage}     # in a clone of the archive: make it again",
    )


def _slug(text: str) -> str:
    """A name of a data set as the Hub takes it."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower())


def _integer(value: Json) -> str:
    return number(value) if isinstance(value, int) and not isinstance(value, bool) else "not on record"


def _gigabytes(value: Json) -> str:
    return f"{value // 2**30} GiB" if isinstance(value, int) and not isinstance(value, bool) else "not on record"


def _decimal(value: Json) -> str:
    """A loss in its one spelling. Raises ``MalformedRecord`` for anything else."""
    return decimals.write(decimals.read(value))


_SECTIONS: dict[str, Callable[[Account], str]] = {
    "title": _title,
    "warnings": _warnings,
    "summary": _summary,
    "curve": _curve,
    "evaluation": _evaluation,
    "forecast": _forecast,
    "data": _data,
    "training": _training,
    "hardware": _hardware,
    "incidents": _incidents,
    "licences": _licences,
    "proof": _proof,
    "identity": _identity,
    "use": _use,
}
