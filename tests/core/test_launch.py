"""Launch bundles: ranks by rack, forecasts against quotas, scripts that shellcheck accepts, Kubernetes' own models."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from registry.core import launchfiles
from registry.core.launch import (
    WATCHDOG,
    Cluster,
    Forecast,
    Launch,
    Quotas,
    Target,
    Window,
    environment,
    local_cluster,
    rack_cluster,
)
from registry.core.launchgrade import grade
from registry.core.transcript import Line, bits
from registry.errors import Refused

PULLED = {"name": "tokens/code", "path": "artifacts/tokens/code", "digest": "sha256:" + "1" * 64}
HOSTILE = "x'; touch /tmp/owned; '"


def launch(target: Target, **changed: Any) -> Launch:
    cluster = local_cluster(2) if target is Target.LOCAL else rack_cluster(704)
    platform = "cpu" if target is Target.LOCAL else "cuda"
    made = Launch(
        name="hero/2",
        stage="hero/2",
        target=target,
        commit="c" * 40,
        origin="https://example.org/lab/archive",
        lock="d" * 64,
        platform=platform,
        cluster=cluster,
        window=Window(first=450, last=846, keep_every=225),
        environment=environment(platform),
        inputs=({**PULLED, "pull": "reckon pull dvc:tokens/code", "verify": "reckon verify tokens/code"},),
        parent={
            **PULLED,
            "name": "hero/1@step-450",
            "path": "artifacts/hero/1/checkpoints/step-450",
            "step": 450,
            "root": "sha256:" + "2" * 64,
            "pull": "reckon pull dvc:hero/1",
            "verify": "reckon verify hero/1@step-450",
        },
        lacking=(),
        told=(),
        retention="every 225 steps",
        forecast=Forecast(checkpoint_bytes=10**6, kept=2, checkpoint_objects=2, steps=396, exact=True),
        quotas=Quotas(),
        program="sha256:" + "3" * 64,
        resume_processes=1,
        recorded=target is not Target.LOCAL,
    )
    return replace(made, **changed)


def test_ranks_fill_sixteen_of_eighteen_nodes_of_eleven_racks() -> None:
    ranks = list(rack_cluster(704).ranks())
    assert len(ranks) == 176
    assert {rack for _, rack, _, _ in ranks} == set(range(11))
    assert max(place for _, _, place, _ in ranks) == 15
    assert [number for _, _, _, devices in ranks for number in devices] == list(range(704))
    assert rack_cluster(704).mesh == {"replica_dcn": 11, "data": 1, "expert": 64, "model": 1}
    # Devices that share experts are those of one rack: a row of the mesh is one rack's.
    assert all(devices.start // 64 == rack for _, rack, _, devices in ranks)


@pytest.mark.parametrize("devices", [0, 2, 65, 70, 68 + 64])
def test_parts_of_racks_are_refused(devices: int) -> None:
    with pytest.raises(Refused):
        rack_cluster(devices)
    assert rack_cluster(8).mesh["expert"] == 8


def test_a_window_keeps_what_a_run_keeps() -> None:
    assert Window(first=0, last=450, keep_every=225).kept == 2
    assert Window(first=450, last=846, keep_every=225).kept == 2
    assert Window(first=0, last=10, keep_every=225).kept == 1
    for first, last in ((5, 5), (-1, 3), (7, 2)):
        with pytest.raises(Refused):
            Window(first=first, last=last, keep_every=1)


def test_a_forecast_holds_itself_against_quotas() -> None:
    told = Forecast(checkpoint_bytes=5 * 10**12, kept=66, checkpoint_objects=26928, steps=390251, exact=False)
    assert told.total_bytes > 66 * 5 * 10**12
    assert not told.exceeded(Quotas())
    assert not told.exceeded(Quotas(disk_bytes=told.total_bytes, objects=told.total_objects))
    assert len(told.exceeded(Quotas(disk_bytes=told.total_bytes - 1, objects=0))) == 2


@pytest.mark.parametrize("target", list(Target))
def test_scripts_are_sound_shell_whatever_is_in_them(target: Target, tmp_path: Path) -> None:
    for number, made in enumerate((launch(target), launch(target, origin=HOSTILE, commit=HOSTILE, recorded=False))):
        folder = tmp_path / str(number)
        folder.mkdir()
        scripts = []
        for name, text in launchfiles.files(made).items():
            (folder / name).write_text(text)
            if name.endswith((".sh", ".sbatch")):
                scripts.append(name)
        done = subprocess.run(
            [Path(sys.executable).with_name("shellcheck"), *scripts],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        for name in scripts:
            assert subprocess.run(["bash", "-n", folder / name], check=False).returncode == 0
    assert "'x'\"'\"'; touch /tmp/owned" in (folder / "pull.sh").read_text()


def test_the_bundle_says_everything_by_digest() -> None:
    made = launchfiles.files(launch(Target.SLURM))
    plan = json.loads(made["plan.json"])
    assert plan["commit"] == "c" * 40
    assert plan["parent"]["root"] == "sha256:" + "2" * 64
    assert plan["cluster"]["ranks"][-1] == {"process": 175, "rack": 10, "place": 15, "devices": [700, 703]}
    for text in ("git clone --no-checkout", "c" * 40, "reckon verify hero/1@step-450", "reckon pull dvc:tokens/code"):
        assert text in made["pull.sh"]
    script = made["launch.sbatch"]
    for line in ("--nodes=176", "--gpus-per-node=4", "--segment=16", "--requeue", "--signal=B:TERM@600"):
        assert f"#SBATCH {line}\n" in script
    assert "NCCL_MNNVL_ENABLE=1" in made["env.sh"]
    assert "reckon record hero/2 --status" in made["close.sh"]
    assert made["ranks.tsv"].count("\n") == 177
    assert launchfiles.files(launch(Target.SLURM)) == made


@pytest.mark.slow
def test_the_job_is_what_kubernetes_reads() -> None:
    made = launchfiles.files(launch(Target.KUBERNETES, recorded=False))
    service, files, job = json.loads(made["job.json"])["items"]
    read = _read(job, "V1Job")
    spec, pod = read.spec, read.spec.template.spec
    assert (spec.completion_mode, spec.completions, spec.parallelism) == ("Indexed", 176, 176)
    disrupted, final = spec.pod_failure_policy.rules
    assert (disrupted.action, disrupted.on_pod_conditions[0].type) == ("Ignore", "DisruptionTarget")
    assert (final.action, final.on_exit_codes.operator, final.on_exit_codes.values) == ("FailJob", "In", [1, 2])
    assert final.on_exit_codes.container_name == pod.containers[0].name
    assert pod.restart_policy == "Never", "a pod failure policy needs it"
    assert spec.pod_replacement_policy == "Failed", "two pods would write one folder"
    assert spec.backoff_limit == WATCHDOG["restarts"] * 176
    assert pod.termination_grace_period_seconds > WATCHDOG["grace_seconds"], "or nothing is closed"
    assert pod.subdomain == read.metadata.name == _read(service, "V1Service").metadata.name
    assert _read(service, "V1Service").spec.cluster_ip == "None"
    assert pod.containers[0].resources.limits == {"nvidia.com/gpu": "4"}
    assert pod.topology_spread_constraints[0].min_domains == 11
    assert {one.name for one in pod.volumes} == {one.name for one in pod.containers[0].volume_mounts}
    script = pod.containers[0].command[-1]
    assert f"--coordinator {read.metadata.name}-0.{read.metadata.name}:29500" in script
    assert '"$JOB_COMPLETION_INDEX"' in script
    bundle = _read(files, "V1ConfigMap")
    assert set(bundle.data) == set(made) - {"job.json"}
    assert sum(map(len, bundle.data.values())) < 2**20, "a ConfigMap holds at most one MiB"
    done = subprocess.run(["bash", "-n", "-c", script], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_names_from_records_are_no_shell_and_no_scheduler_options(tmp_path: Path) -> None:
    hostile = {**PULLED, "name": f"x\ntouch {tmp_path}/owned\n", "pull": "true", "verify": "true"}
    script = launchfiles.files(launch(Target.SLURM, inputs=(hostile,), parent=None))["pull.sh"]
    for line in ("git ", "test -d .git", "make ", "echo 'dddd"):
        script = "\n".join(one for one in script.split("\n") if not one.startswith(line))
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert f"touch {tmp_path}/owned\n is sha256:1111" in done.stdout
    assert not (tmp_path / "owned").exists()
    assert launch(Target.KUBERNETES, stage="hero/A_b.c\n--x/" + "9" * 30 + "/" * 9).slug == (
        "reckon-hero-a-b-c---x-" + "9" * 28
    )
    assert launch(Target.KUBERNETES, stage="rung/d48_").slug == "reckon-rung-d48"


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("target", list(Target))
def test_every_target_runs_its_work_under_the_watchdog_with_one_policy(target: Target, recorded: bool) -> None:
    made = launchfiles.files(launch(target, recorded=recorded))
    script, plan = work(made), json.loads(made["plan.json"])
    before, _, after = script.partition("python -m train.launch_watch --progress ")
    assert not [name for name in ("train.rung", "train.segment", "launch_worker", "launch_local") if name in before]
    progress, _, command = after.partition(' "$here/plan.json" -- ')
    assert "transcript.jsonl" in progress
    own = {Target.LOCAL: "train.launch_local"}.get(target, "train.launch_worker")
    assert ("train.segment" if recorded else own) in command.partition("&\n")[0]
    assert plan["watchdog"] == dict(WATCHDOG)
    assert f"{WATCHDOG['stall_seconds']} s between" in made["README.md"].replace("\n", " ")


@pytest.mark.parametrize("target", [Target.KUBERNETES, Target.LOCAL])
def test_a_script_hands_the_signal_on_and_closes_with_the_last_status(target: Target, tmp_path: Path) -> None:
    """The script's own shell, with stand-ins for what it calls: bash does not hand a signal on by itself."""
    text = work(launchfiles.files(launch(target, recorded=False)))
    _, _, text = text.partition("status=0\n")
    on_signal = "trap 'echo told >> log; sleep 0.1; exit 7' TERM"
    stand_in = f"python() {{ {on_signal}; touch ready; while true; do sleep 0.02; done; }}"
    script = f"set -euo pipefail\nhere={tmp_path}\nJOB_COMPLETION_INDEX=0\n{stand_in}\nstatus=0\n{text}"
    (tmp_path / "close.sh").write_text('#!/bin/bash\necho "closed $1" >> log\nexit "$1"\n')
    (tmp_path / "close.sh").chmod(0o755)
    running = subprocess.Popen(["bash", "-c", script], cwd=tmp_path)
    while not (tmp_path / "ready").exists():
        time.sleep(0.02)
    running.terminate()
    assert running.wait(20) == 7
    assert (tmp_path / "log").read_text() == "told\nclosed 7\n"


LACKING = (
    {
        "what": "data",
        "name": "marin/data/mix",
        "digest": None,
        "why": "withheld: may not be redistributed",
        "give": "Whoever holds it makes it a stage.",
        "told": ["store store_1 (log)"],
    },
)


@pytest.mark.parametrize("target", [Target.SLURM, Target.KUBERNETES])
def test_a_bundle_that_lacks_an_input_says_so_and_refuses_to_start(target: Target, tmp_path: Path) -> None:
    made = launchfiles.files(launch(target, lacking=LACKING, inputs=(), parent=None, recorded=False))
    said = made["README.md"].partition("Steps ")[0]
    for part in (
        "cannot start as it is",
        "data `marin/data/mix`: no digest is told",
        "withheld",
        "store_1",
        "a stage.",
    ):
        assert part in said
    assert made["pull.sh"].endswith(">&2\nexit 2\n")
    (tmp_path / "plan.json").write_text(made["plan.json"])
    command = [sys.executable, "-m", "train.launch_preflight", str(tmp_path / "plan.json")]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, ""), "before anything is looked at"
    assert "lacks data marin/data/mix (no digest is told; withheld: may not be" in done.stderr
    assert "cannot start" not in launchfiles.files(launch(target))["README.md"]


def test_grades_say_what_holds_and_no_more() -> None:
    lines = [
        Line(step=step, loss=bits(5.0 / step), gradient_norm=bits(1.0), order="a" * 64, state="b" * 16)
        for step in (1, 2)
    ]
    assert grade(lines, lines, ("r", "r")).tier == "T1"
    near = [replace(lines[0], loss=lines[0].loss + 1), lines[1]]
    graded = grade(near, lines, ("r", "s"))
    assert (graded.tier, graded.first_difference, graded.root_equal) == ("T3", 1, False)
    assert 0 < graded.loss_distance < Fraction(1, 10**6)
    assert grade(lines, lines, ("r", "s")).tier == "T3"
    nan = [replace(line, loss=bits(float("nan"))) for line in lines]
    assert grade(nan, nan, ("r", "r")).loss_distance == 0, "the same bits"
    far = [replace(lines[0], loss=bits(9.0)), lines[1]]
    assert grade(far, lines, ("r", "s")).tier is None
    other = [replace(line, order="c" * 64) for line in lines]
    assert not grade(other, lines, ("r", "r")).holds, "another order of the data is no reproduction"
    none = [replace(lines[0], loss=bits(float("nan"))), lines[1]]
    assert not grade(none, lines, ("r", "s")).holds
    for run in ([], lines[:1]):
        with pytest.raises(Refused):
            grade(run, lines, ("r", "r"))


def _read(value: Any, kind: str) -> Any:
    """The object as the package's models read it; nothing may be lost on the way through them."""
    from kubernetes import client  # some seconds

    api = client.ApiClient()
    read = api.deserialize(json.dumps(value), kind, "application/json")
    assert api.sanitize_for_serialization(read) == value
    return read


def test_a_cluster_of_one_is_a_cluster() -> None:
    assert [*Cluster(processes=1, devices_per_process=1, mesh={}).ranks()] == [(0, 0, 0, range(1))]


@pytest.mark.parametrize("target", list(Target))
def test_a_recorded_launch_starts_the_stage_itself_between_its_records(target: Target) -> None:
    own = launchfiles.files(launch(target, recorded=True))
    order = ["preflight.sh", "reckon record", "--begin", "python -m train.segment 2", "close.sh"]
    places = [work(own).index(text) for text in order]
    assert places == sorted(places)
    assert "reckon record hero/2 --status" in own["close.sh"]
    other = launchfiles.files(launch(target, recorded=False))
    assert "train.segment" not in work(other)
    assert "reckon record" not in work(other) + other["close.sh"]


def work(files: dict[str, str]) -> str:
    """The script that a bundle is started with."""
    if "job.json" not in files:
        return files.get("launch.sbatch") or files["run.sh"]
    [job] = [one for one in json.loads(files["job.json"])["items"] if one["kind"] == "Job"]
    return job["spec"]["template"]["spec"]["containers"][0]["command"][-1]
