"""The files of a launch bundle as text: README, how to pull, container, environment, ranks, and the target's own.

Deterministic: the same facts give the same bytes. Everything that came from a record or a person is quoted for the
shell. Refuses nothing: what cannot be launched was refused before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from shlex import quote

from registry.core.launch import NODE_DEVICES, RACK_NODES, RACK_SLOTS, Launch, Target
from registry.core.launchjob import manifest
from registry.core.launchreadme import readme
from registry.core.launchshell import COORDINATOR_PORT, HEAD, OWN_PATH, STRICT, begin, opening, watched, worker


def files(launch: Launch) -> dict[str, str]:
    """All files of a bundle by name. Shell scripts end in ``.sh`` or ``.sbatch``."""
    common = {
        "plan.json": json.dumps(launch.to_json(), indent=1, sort_keys=True) + "\n",
        "README.md": readme(launch),
        "pull.sh": _pull(launch),
        "env.sh": _environment(launch),
        "ranks.tsv": _ranks(launch),
        "Containerfile": _container(launch),
        "preflight.sh": _preflight(),
        "close.sh": _close(launch),
    }
    own: Mapping[Target, Mapping[str, str]] = {
        Target.SLURM: {"launch.sbatch": _sbatch(launch)},
        Target.KUBERNETES: {"job.json": json.dumps(manifest(launch, common), indent=1, sort_keys=True) + "\n"},
        Target.LOCAL: {"run.sh": _local(launch)},
    }
    return {**common, **own[launch.target]}


def _pull(launch: Launch) -> str:
    lines = [begin("Bring code, environment, data and parent here. Run it in the folder that the run is to live in.")]
    if launch.origin is not None:
        lines.append(f"test -d .git || git clone --no-checkout {quote(launch.origin)} .\n")
    lines.append(f"git checkout --detach {quote(launch.commit)}\n")
    lines.append(f"echo {quote(launch.lock + '  requirements.lock')} | sha256sum --check --quiet\n")
    lines.append(f"make environment\n{OWN_PATH}")
    for one in (*launch.inputs, *([launch.parent] if launch.parent else [])):
        told = quote(f"{one['name']} is {one['digest']}")
        lines += [f"echo {told}\n", f"{one['pull']}\n", f"{one['verify']}\n"]
    if launch.lacking:
        told = "; ".join(f"{one['what']} {one['name']}" for one in launch.lacking)
        return (
            "".join(lines)
            + f"echo {quote(f'Not here, and nothing starts without: {told}. See README.md.')} >&2\nexit 2\n"
        )
    return "".join(lines) + 'echo "all is here: now run $here/preflight.sh in this folder"\n'


def _environment(launch: Launch) -> str:
    exports = "".join(f"export {name}={quote(value)}\n" for name, value in sorted(launch.environment.items()))
    return f"# Sourced in the run's folder by every process.\n# shellcheck shell=bash\n{exports}{OWN_PATH}"


def _ranks(launch: Launch) -> str:
    rows = ["process\track\tplace\tfirst_device\tlast_device"]
    for process, rack, place, devices in launch.cluster.ranks():
        rows.append(f"{process}\t{rack}\t{place}\t{devices.start}\t{devices.stop - 1}")
    return "\n".join(rows) + "\n"


def _container(launch: Launch) -> str:
    return f"""\
# The base image is named by its digest, by whoever builds: --build-arg BASE=python@sha256:…
ARG BASE
FROM ${{BASE}}
RUN apt-get update && apt-get install --yes --no-install-recommends git make && rm -rf /var/lib/apt/lists/*
WORKDIR /run/reckon
COPY . .
# requirements.lock is {launch.lock}; every wheel in it has its hash.
RUN echo "{launch.lock}  requirements.lock" | sha256sum --check --quiet && make environment
ENV PATH=/run/reckon/.venv/bin:$PATH
"""


def _preflight() -> str:
    return begin("Nothing starts unless this says that all holds. Run it in the run's folder, on every node.") + (
        '# shellcheck source=/dev/null\nsource "$here/env.sh"\n'
        'exec python -m train.launch_preflight "$here/plan.json"\n'
    )


def _close(launch: Launch) -> str:
    head = f"{HEAD}# Close the run: write down what every attempt came to. The argument is how the run ended.\n{STRICT}"
    if launch.recorded:
        return head + f'exec reckon record {quote(launch.stage)} --status "${{1:?how the run ended}}"\n'
    words = f"{launch.stage} ran in a setup that is not its recipe's: out/ has the result, which is no witness."
    failed = f"{launch.stage} has no result; look at the logs above and in out/. It ended with"
    return (
        head
        + f'status="${{1:?how the run ended}}"\nif [ "$status" = 0 ]; then echo {quote(words)}; '
        + f'else echo {quote(failed)} "$status" >&2; fi\nexit "$status"\n'
    )


def _sbatch(launch: Launch) -> str:
    nodes = launch.cluster.processes
    segment = f"#SBATCH --segment={min(RACK_NODES, nodes)}\n" if nodes > 1 else ""
    work = worker('"$RECKON_COORDINATOR"', '"$SLURM_PROCID"', '"$here/out"')
    run = f"""bash -c 'here="$0"; exec {work}' "$here\""""
    progress = '"$here/out/transcript.jsonl"'
    if launch.recorded:
        run, progress = launch.own_command, quote(launch.own_progress)
    gpus = f"#SBATCH --gpus-per-node={NODE_DEVICES}\n" if launch.platform == "cuda" else ""
    return f"""\
{HEAD}#SBATCH --job-name={launch.slug}
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
{gpus}{segment}#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=artifacts/{launch.slug}-%j.log
#SBATCH --signal=B:TERM@600
# Racks have {RACK_SLOTS} nodes, {RACK_NODES} are used: --segment keeps each group in one rack.
# Submit it in the run's folder:
#   RECKON_BUNDLE=/path/of/this/folder sbatch launch.sbatch
{STRICT}here="${{RECKON_BUNDLE:?name the folder of the bundle}}"
# shellcheck source=/dev/null
source "$here/env.sh"
head_node="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"
export RECKON_COORDINATOR="$head_node:{COORDINATOR_PORT}"
srun --kill-on-bad-exit=1 "$here/preflight.sh"
{opening(launch)}{watched(f"srun --kill-on-bad-exit=1 {run}", progress)}exec "$here/close.sh" "$status"
"""


def _local(launch: Launch) -> str:
    work = 'python -m train.launch_local "$here/plan.json" --output "$here/out"'
    progress = '"$here/out/*/transcript.jsonl"'
    if launch.recorded:
        work, progress = launch.own_command, quote(launch.own_progress)
    return (
        begin("Run it here: preflight, processes, resume, reference, grade. Call it in the run's folder.")
        + '"$here/preflight.sh"\n# shellcheck source=/dev/null\nsource "$here/env.sh"\n'
        + opening(launch)
        + watched(work, progress)
        + 'exec "$here/close.sh" "$status"\n'
    )
