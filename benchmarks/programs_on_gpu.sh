#!/usr/bin/env bash
# For one borrowed GPU: a pocket rung with and without deterministic kernels, twice each, and a window that a processor
# ran. Run it in a clone with its data (dvc pull) as: benchmarks/programs_on_gpu.sh OUT
# It has not been run: no GPU was lent while it was written. About ten minutes.
set -euo pipefail
out="${1:?where the figures go}"
mkdir -p "$out"
rung="${RUNG:-d32}"
steps="${STEPS:-40}"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee "$out/device.txt"
window() { # name, platform, flags
  reckon plan "$rung" --target local --window "0:$steps" --no-lower -o "$out/$1/bundle"
  python - "$out/$1/bundle/plan.json" "$2" <<'PY'
import json, pathlib, sys
path = pathlib.Path(sys.argv[1])
facts = json.loads(path.read_bytes())
facts["platform"] = sys.argv[2]
path.write_text(json.dumps(facts))
PY
  RECKON_XLA_FLAGS="$3" python -m train.launch_worker "$out/$1/bundle/plan.json" --output "$out/$1/run"
}
window cpu cpu ""
for number in 1 2; do
  window "plain-$number" cuda ""
  window "deterministic-$number" cuda "--xla_gpu_deterministic_ops=true"
done
python - "$out" <<'PY'
import json, pathlib, sys
from registry.core import transcript
from registry.core.launchgrade import grade
out = pathlib.Path(sys.argv[1])
def run(name):
    folder = out / name / "run"
    lines = transcript.parse((folder / "transcript.jsonl").read_bytes()).lines
    return lines, json.loads((folder / "result.json").read_bytes())["root"]
told = {}
for one, other in (("plain-1", "plain-2"), ("deterministic-1", "deterministic-2"), ("deterministic-1", "cpu")):
    (lines, root), (reference, wanted) = run(one), run(other)
    told[f"{one} against {other}"] = grade(lines, reference, (root, wanted)).to_json()
(out / "grades.json").write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
print(json.dumps(told, indent=1, sort_keys=True))
PY
