#!/bin/sh
# Makes the golden figures that are missing for the shipped configs: one run of the original each, one after the other.
#   tests/witness/make_golden.sh PYTHON     PYTHON: an interpreter with the witness installed (../shared/witness/README.md)
# Takes half a minute (SSD) to two and a half minutes (Faster R-CNN) a config on two cores, and up to 5.5 GB of memory.
set -eu
cd "$(dirname "$0")/../.."
python=${1:?usage: make_golden.sh PYTHON}
witness=${OBJDET_SHARED:-../shared}/witness
[ -f "$witness/golden.py" ] || { echo "SKIPPED: needs shared data witness/golden.py"; exit 0; }
for config in samples/configs/*.config; do
  name=$(basename "$config" .config)
  if [ -f "$witness/golden/$name.json" ] || [ -f "tests/golden/configs/$name.json" ]; then continue; fi
  echo "$name"
  OD_WITNESS=1 PYTHONPATH="$witness/original" nice -n 10 "$python" "$witness/golden.py" "$config" "tests/golden/configs/$name.json"
done
