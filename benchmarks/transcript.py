"""What the fingerprint of the state costs in a training step: ``python -m benchmarks.transcript [--hidden D]``.

Times the compiled step with and without it, on random tokens, in one process and in turn. Reports the share of a step.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Callable
from typing import Any

from registry.core.ladder import Shape, derive
from train.determinism import Determinism
from train.plan import Plan, rung_plan


def main() -> None:
    """Measure and print one line a variant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=512, help="model width")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64, help="sequences a step")
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--steps", type=int, default=3, help="timed steps of each variant")
    chosen = parser.parse_args()
    plan = _widened(rung_plan("d32"), chosen)
    Determinism.from_settings(plan.sections["determinism"]).apply()
    bare, told = measure(plan, chosen.steps)
    share = (told - bare) / bare
    tokens = plan.rung.tokens_per_step
    sys.stdout.write(f"model {plan.rung.label}, {tokens} tokens a step\n")
    sys.stdout.write(f"without fingerprint  {bare:.3f} s a step\nwith fingerprint     {told:.3f} s a step\n")
    sys.stdout.write(f"share                {share:.2%} (aim: at most 2 %)\n")


def measure(plan: Plan, steps: int) -> tuple[float, float]:
    """Seconds of the fastest step without and with the fingerprint, taken in turn."""
    import jax.numpy as jnp

    from train import step as module
    from train.fingerprint import LANES

    real = module.fingerprint
    module.fingerprint = lambda leaves: jnp.zeros((LANES,), jnp.uint32)
    bare = _stepper(plan)
    bare()
    module.fingerprint = real
    told = _stepper(plan)
    told()
    times = [(_seconds(bare), _seconds(told)) for _ in range(steps)]
    return min(one for one, _ in times), min(other for _, other in times)


def _stepper(plan: Plan) -> Callable[[], None]:
    """A function that trains one step further and waits for it."""
    import haliax as hax
    import jax
    from levanter.trainer import Trainer

    from train.engine import Engine

    engine = Engine(plan)
    trainer: Trainer = engine.trainer
    axes = (hax.Axis("batch", plan.rung.batch_sequences), engine.family.Pos)
    held: list[Any] = []
    with engine.mesh():
        tokens = hax.random.randint(jax.random.PRNGKey(0), axes, 3, plan.family.vocabulary)
        held.append(engine.fresh())

    def advance() -> None:
        with trainer:
            held[0], stepped = engine.step(held[0], tokens)
            jax.block_until_ready((stepped.loss, stepped.lanes, jax.tree.leaves(held[0])))

    return advance


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _widened(plan: Plan, chosen: argparse.Namespace) -> Plan:
    family = dataclasses.replace(plan.family, vocabulary=chosen.vocabulary, head_dim=64)
    heads = chosen.hidden // 64
    shape = Shape(hidden=chosen.hidden, layers=chosen.layers, kv_heads=(heads, heads), batch_sequences=chosen.batch)
    return dataclasses.replace(plan, family=family, rung=derive(family, shape))


if __name__ == "__main__":
    main()
