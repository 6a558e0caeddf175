#!/usr/bin/env bash
# Slurm: a run longer than a job may be. Five minutes before the limit, or when the job is preempted, the run stops with
# its state; the job is queued again, and continues. Flags are those of `yolofast train`:
#   NAME=night sbatch deploy/slurm.sh --data /data/coco320.yaml --cfg yolov7-tiny --epochs 300
#SBATCH --job-name=yolofast
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=8
#SBATCH --mem=32G
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.txt
set -uo pipefail

: "${NAME:=slurm-$SLURM_JOB_ID}" # a job that is queued again keeps its number

yolofast train "$@" --name "$NAME" --resume auto &
run=$!
trap 'kill -USR1 "$run"' USR1
trap 'kill -TERM "$run"' TERM

wait "$run"
code=$?
# A signal ends `wait` before the run has ended.
while kill -0 "$run" 2>/dev/null; do
    wait "$run"
    code=$?
done

case $code in
75 | 138 | 143) # --time-limit, SIGUSR1, SIGTERM: there is more to do
    echo "queued again after exit code $code"
    scontrol requeue "$SLURM_JOB_ID"
    ;;
esac
exit "$code"
