"""A launch as Kubernetes objects: a headless service, the bundle's files, and an indexed job with a pod for each node.

The first pod is the coordinator; its name is known beforehand through the service. Pods of a group of sixteen share a
rack, by the label that GPU feature discovery gives an NVLink domain. In each pod the watchdog runs the work: it ends
what stands still and goes on from the last checkpoint, with all others, for all see one transcript. What it gives up
the job starts again in a new pod, once the old one is gone. Plain values in the form of the API.
"""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import Final

from registry.core.canonical import Json
from registry.core.launch import NODE_DEVICES, RACK_NODES, WATCHDOG, Launch
from registry.core.launchshell import COORDINATOR_PORT, opening, watched, worker

RACK_LABEL: Final = "nvidia.com/gpu.clique"
_BUNDLE: Final = "/run/bundle"
_RUN: Final = "/run/reckon"
_INDEX: Final = '"$JOB_COMPLETION_INDEX"'
# A pod that is evicted or loses its node costs no retry; a refusal (2) or a claim that fails (1) ends the job.
_POLICY: Final[Json] = {
    "rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"containerName": "train", "operator": "In", "values": [1, 2]}},
    ]
}


def manifest(launch: Launch, files: Mapping[str, str]) -> dict[str, Json]:
    """A list of the three objects. Image and claim are the cluster's: replace ``IMAGE`` and ``CLAIM``."""
    return {"apiVersion": "v1", "kind": "List", "items": [_service(launch), _files(launch, files), _job(launch)]}


def _meta(launch: Launch) -> dict[str, Json]:
    labels = {"app.kubernetes.io/name": "reckon", "reckon/launch": launch.slug}
    return {"name": launch.slug, "labels": labels, "annotations": {"reckon/commit": launch.commit}}


def _service(launch: Launch) -> dict[str, Json]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _meta(launch),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"reckon/launch": launch.slug},
            "ports": [{"name": "coordinator", "port": COORDINATOR_PORT}],
        },
    }


def _files(launch: Launch, files: Mapping[str, str]) -> dict[str, Json]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta(launch), "data": dict(files)}


def _job(launch: Launch) -> dict[str, Json]:
    processes = launch.cluster.processes
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _meta(launch),
        "spec": {
            "completionMode": "Indexed",
            "completions": processes,
            "parallelism": processes,
            "backoffLimit": WATCHDOG["restarts"] * processes,
            "podFailurePolicy": _POLICY,
            "podReplacementPolicy": "Failed",
            "template": {"metadata": {"labels": {"reckon/launch": launch.slug}}, "spec": _pod(launch)},
        },
    }


def _pod(launch: Launch) -> dict[str, Json]:
    volumes: list[Json] = [
        {"name": "bundle", "configMap": {"name": launch.slug, "defaultMode": 0o555}},
        {"name": "run", "persistentVolumeClaim": {"claimName": "CLAIM"}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
    ]
    pod: dict[str, Json] = {
        "subdomain": launch.slug,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 2 * WATCHDOG["grace_seconds"],
        "containers": [_container(launch)],
        "volumes": volumes,
    }
    if launch.platform == "cuda":
        pod["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
        pod["topologySpreadConstraints"] = [_spread(launch)]
    return pod


def _spread(launch: Launch) -> dict[str, Json]:
    """Evenly over as many racks as the mesh has, so that no rack holds more than its sixteen."""
    racks = -(-launch.cluster.processes // RACK_NODES)
    return {
        "maxSkew": 1,
        "minDomains": racks,
        "topologyKey": RACK_LABEL,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"reckon/launch": launch.slug}},
    }


def _container(launch: Launch) -> dict[str, Json]:
    mounts: list[Json] = [
        {"name": "bundle", "mountPath": _BUNDLE, "readOnly": True},
        {"name": "run", "mountPath": _RUN},
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108  # the container's shared memory
    ]
    container: dict[str, Json] = {
        "name": "train",
        "image": "IMAGE",
        "workingDir": _RUN,
        "command": ["bash", "-euo", "pipefail", "-c", _script(launch)],
        "env": [{"name": name, "value": value} for name, value in sorted(launch.environment.items())],
        "ports": [{"name": "coordinator", "containerPort": COORDINATOR_PORT}],
        "volumeMounts": mounts,
    }
    if launch.platform == "cuda":
        container["resources"] = {"limits": {"nvidia.com/gpu": str(NODE_DEVICES)}}
    return container


def _script(launch: Launch) -> str:
    """What a pod runs. Bash is its first process: it hands a signal on, or none would reach the work."""
    output = f"{_RUN}/out"
    work = worker(f"{launch.slug}-0.{launch.slug}:{COORDINATOR_PORT}", _INDEX, output)
    progress = f"{output}/transcript.jsonl"
    if launch.recorded:
        work, progress = launch.own_command, quote(launch.own_progress)
    return (
        f'here={_BUNDLE}\nbash "$here/preflight.sh"\nsource "$here/env.sh"\n{_first(opening(launch))}'
        + watched(work, progress)
        + _first('bash "$here/close.sh" "$status"\n')
        + 'exit "$status"\n'
    )


def _first(command: str) -> str:
    """A command for the first pod alone."""
    return f"if [ {_INDEX} = 0 ]; then {command.strip()}; fi\n" if command else ""
