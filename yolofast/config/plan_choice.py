"""Which plan a run follows: that of `--plan`, of `--stage` with its flags, or what `--freeze` says, as one phase."""

import dataclasses

from yolofast.config.plan_file import BatchNormPolicy, PhaseSpec, PlanSpec, read_plan
from yolofast.config.train import TrainConfig

_LATE = "late"


def plan_spec_of(config: TrainConfig) -> PlanSpec:
    if config.plan:
        return read_plan(config.plan)
    if config.stage:
        return _with_stage_flags(read_plan(config.stage), config)
    return PlanSpec(name="--freeze", phases=(PhaseSpec(freeze=config.freeze),))


def _with_stage_flags(plan: PlanSpec, config: TrainConfig) -> PlanSpec:
    (phase,) = plan.phases
    factors = {"head": config.lr_mult_head, "neck": config.lr_mult_neck, _LATE: config.lr_mult_backbone}
    policy: BatchNormPolicy = "late" if config.bn_unfreeze_late else "eval"
    warmup = phase.warmup_epochs if config.warmup_restart_epochs == -1 else float(config.warmup_restart_epochs)
    changed = dataclasses.replace(
        phase,
        lr_factors=tuple((scope, factors[scope]) for scope, _ in phase.lr_factors),
        warmup_epochs=warmup,
        batch_norm=tuple((scope, policy if scope == _LATE else kept) for scope, kept in phase.batch_norm),
        batch_norm_epochs=config.bn_phase1_epochs,
    )
    return dataclasses.replace(plan, phases=(changed,))
