#!/usr/bin/env bash
# vast.ai: a template whose instances train at every start, by the program `vastai` and your account:
#   DATA_URL=https://…/data.zip NAME=night TRAIN="--data data/data.yaml --cfg yolov7-tiny" deploy/vast-template.sh
# Then rent with it, here or on the page of the site: vastai create instance OFFER --template_hash HASH
set -euo pipefail

: "${DATA_URL:?say where the data set is: DATA_URL=https://…/data.zip}" "${NAME:?name the run: NAME=night}"
: "${TRAIN:=--data data/data.yaml}" "${IMAGE:=pytorch/pytorch}" "${DISK:=60}"

# Without newlines and double quotes: vast.ai takes them as docker's options.
if [[ $DATA_URL$NAME$TRAIN == *[\"$'\n']* ]]; then
    echo "DATA_URL, NAME and TRAIN must not have quotes or line breaks" >&2
    exit 2
fi

vastai create template --name "yolofast-$NAME" --image "$IMAGE" --ssh --direct --disk_space "$DISK" \
    --env "-e DATA_URL=\"$DATA_URL\" -e NAME=\"$NAME\" -e TRAIN=\"$TRAIN\"" \
    --onstart-cmd "$(cat "$(dirname "$0")/vast-onstart.sh")"
