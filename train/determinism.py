"""Every setting that changes bits, set in one place, before JAX is imported.

The values come from the section ``determinism`` of ``params.yaml`` and belong to the recipe. They reach JAX and XLA
through the environment only, and replace whatever the caller's environment says of the same things. Refuses to act when
JAX is already imported, unknown settings, and values of the wrong kind.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.metadata import version
from typing import Final, Self

from registry.core.canonical import Json
from registry.errors import Refused

LIBRARIES: Final = ("jax", "jaxlib", "marin-levanter")

_PLATFORMS = ("cpu", "cuda")
_GENERATORS = ("threefry2x32", "rbg", "unsafe_rbg")
_PRECISIONS = ("default", "high", "highest")
_RAGGED = ("xla", "triton")


@dataclass(frozen=True, slots=True, kw_only=True)
class Determinism:
    """Settings that change bits.

    ``nproc`` sizes XLA's thread pool on a CPU, which decides how reductions are split. ``max_isa`` bounds the
    instruction set that XLA compiles for, so that hosts with wider vectors give the same bits. ``devices`` is the
    number of CPU devices. ``ragged_dot`` names the kernel of the experts' matrix products.
    """

    platform: str
    devices: int
    nproc: int
    max_isa: str
    generator: str
    partitionable_generator: bool
    matmul_precision: str
    x64: bool
    custom_softmax_gradient: bool
    ragged_dot: str
    xla_flags: tuple[str, ...]

    @classmethod
    def from_settings(cls, settings: Mapping[str, Json]) -> Self:
        """Read the section. Raises ``Refused`` for a missing, unknown or malformed setting."""
        names = {field.name for field in fields(cls)}
        if set(settings) != names:
            raise Refused(
                f"The section 'determinism' must have exactly these settings: {', '.join(sorted(names))}.",
                remedy="Compare params.yaml with its committed version.",
            )
        flags = settings["xla_flags"]
        if not isinstance(flags, list | tuple):
            raise Refused("determinism.xla_flags must be a list of flags.", remedy="Write one flag an item.")
        return cls(
            platform=_choice(settings, "platform", _PLATFORMS),
            devices=_count(settings, "devices"),
            nproc=_count(settings, "nproc"),
            max_isa=_text(settings["max_isa"], "max_isa"),
            generator=_choice(settings, "generator", _GENERATORS),
            partitionable_generator=_flag(settings, "partitionable_generator"),
            matmul_precision=_choice(settings, "matmul_precision", _PRECISIONS),
            x64=_flag(settings, "x64"),
            custom_softmax_gradient=_flag(settings, "custom_softmax_gradient"),
            ragged_dot=_choice(settings, "ragged_dot", _RAGGED),
            xla_flags=tuple(_text(flag, "xla_flags") for flag in flags),
        )

    def environment(self) -> dict[str, str]:
        """The variables that carry these settings to JAX, XLA and the thread pools beside it."""
        flags = [*self.xla_flags, f"--xla_force_host_platform_device_count={self.devices}"]
        if self.platform == "cpu":
            flags.append(f"--xla_cpu_max_isa={self.max_isa}")
        return {
            "JAX_PLATFORMS": self.platform,
            "JAX_DEFAULT_PRNG_IMPL": self.generator,
            "JAX_THREEFRY_PARTITIONABLE": str(int(self.partitionable_generator)),
            "JAX_DEFAULT_MATMUL_PRECISION": self.matmul_precision,
            "JAX_ENABLE_X64": str(int(self.x64)),
            "JAX_SOFTMAX_CUSTOM_JVP": str(int(self.custom_softmax_gradient)),
            "NPROC": str(self.nproc),
            "RAGGED_DOT_IMPL": self.ragged_dot,
            "OMP_NUM_THREADS": str(self.nproc),
            "OPENBLAS_NUM_THREADS": str(self.nproc),
            "XLA_FLAGS": " ".join(flags),
        }

    def apply(self) -> dict[str, Json]:
        """Set the process's environment. Returns what was set and what else decides bits, for the run log.

        Raises ``Refused`` when JAX is imported already: it reads most of this only once.
        """
        if "jax" in sys.modules:
            raise Refused(
                "JAX was imported before the settings that change bits were made.",
                remedy="Call Determinism.apply() before anything imports jax, levanter or haliax.",
            )
        variables = self.environment()
        os.environ.update(variables)
        declared = {field.name: getattr(self, field.name) for field in fields(self)}
        libraries = {name: version(name) for name in LIBRARIES}
        return {**declared, "xla_flags": list(self.xla_flags), "machine": platform.machine(), **libraries, **variables}


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value or value != "".join(value.split()):
        raise Refused(f"determinism.{name} is {value!r}, not a word.", remedy=f"Correct determinism.{name}.")
    return value


def _choice(settings: Mapping[str, Json], name: str, known: tuple[str, ...]) -> str:
    value = settings[name]
    if value not in known:
        raise Refused(
            f"determinism.{name} is {value!r}, but only {', '.join(known)} are known.",
            remedy=f"Correct determinism.{name}.",
        )
    return str(value)


def _count(settings: Mapping[str, Json], name: str) -> int:
    value = settings[name]
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 2**16:
        raise Refused(f"determinism.{name} is {value!r}, not a count.", remedy=f"Correct determinism.{name}.")
    return value


def _flag(settings: Mapping[str, Json], name: str) -> bool:
    value = settings[name]
    if not isinstance(value, bool):
        raise Refused(
            f"determinism.{name} is {value!r}, neither true nor false.", remedy=f"Correct determinism.{name}."
        )
    return value
