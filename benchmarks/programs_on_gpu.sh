#!/usr/bin/env bash
# For one borrowed GPU: a pocket rung with and without deterministic kernels, twice each, and the same window on a
# processor. Run it in a clone with its data (dvc pull), in the environment of the lock, as:
#   benchmarks/programs_on_gpu.sh OUT
# JAX needs its CUDA plugin beside, of the very version of the lock's jax: pip install 'jax[cuda12]==…'
# RUNG and STEPS choose the window. PLATFORM=cpu rehearses all of it without a GPU: the figures then say nothing of one.
# OUT is a new folder outside of the clone. On a GPU it has not been run: none was lent while it was written.
set -euo pipefail
out="${1:?where the figures go: a new folder outside of the clone}"
platform="${PLATFORM:-cuda}"
rung="${RUNG:-d32}"
steps="${STEPS:-40}"
if [ -e "$out" ]; then
  echo "$out exists: name a new folder." >&2
  exit 2
fi
if ! JAX_PLATFORMS="$platform" python -c 'import jax; jax.devices()' 2>/dev/null; then
  echo "JAX finds no device of the platform $platform: install its plugin, or set PLATFORM=cpu to rehearse." >&2
  exit 2
fi
mkdir -p "$out"
if [ "$platform" = cuda ]; then
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
else
  echo "$platform: a rehearsal, no GPU"
fi | tee "$out/device.txt"
window() { # name, platform, flags
  reckon plan "$rung" --target local --window "0:$steps" --no-lower -o "$out/$1/bundle" >"$out/$1.log"
  sed -i "s/\"platform\": \"cpu\"/\"platform\": \"$2\"/" "$out/$1/bundle/plan.json"
  grep -q "\"platform\": \"$2\"" "$out/$1/bundle/plan.json"
  echo "$1: $steps steps of $rung on $2 ..." >&2
  RECKON_XLA_FLAGS="$3" python -m train.launch_worker "$out/$1/bundle/plan.json" --output "$out/$1/run" >>"$out/$1.log" 2>&1
}
window cpu cpu ""
for number in 1 2; do
  window "plain-$number" "$platform" ""
  window "deterministic-$number" "$platform" "--xla_gpu_deterministic_ops=true"
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
told = {"device": (out / "device.txt").read_text().strip()}
for one, other in (("plain-1", "plain-2"), ("deterministic-1", "deterministic-2"), ("deterministic-1", "cpu")):
    (lines, root), (reference, wanted) = run(one), run(other)
    told[f"{one} against {other}"] = grade(lines, reference, (root, wanted)).to_json()
(out / "grades.json").write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
print(json.dumps(told, indent=1, sort_keys=True))
PY
