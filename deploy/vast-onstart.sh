#!/usr/bin/env bash
# vast.ai: the on-start script of an instance, for an image with torch (pytorch/pytorch), as `docker options`:
#   -e DATA_URL=https://…/data.zip -e TRAIN="--data data/data.yaml --epochs 100" -e NAME=night
# It runs at every start of the instance, so a run that was stopped with it continues by itself.
set -euo pipefail

: "${NAME:=vast}" "${TRAIN:=}" "${DATA_URL:=}" "${YOLOFAST:=yolofast[gpu]}"
cd "${WORKSPACE:-/workspace}"

if ! command -v yolofast >/dev/null; then
    python3 -m pip install --quiet "$YOLOFAST"
fi

# A download that was cut off continues; the folder appears whole.
if [[ -n $DATA_URL && ! -d data ]]; then
    curl --fail --location --retry 5 --continue-at - --output data.zip "$DATA_URL"
    rm -rf data.unpacked
    python3 -m zipfile -e data.zip data.unpacked
    mv data.unpacked data
fi

# In the background, because vast.ai waits for this script. TRAIN is several words.
# shellcheck disable=SC2086
nohup yolofast train $TRAIN --project runs/train --name "$NAME" --resume auto >>"$NAME.txt" 2>&1 &
echo "training: tail -f $PWD/$NAME.txt"
