"""What declares a setting under each heading of `--help` and of the documentation: `section.model(0, "--heads", …)`."""

from functools import partial

from yolofast.config.settings import setting

profile = partial(setting, section="profile")
model = partial(setting, section="model")
data = partial(setting, section="data")
loader = partial(setting, section="loader", changes_on_resume=True)
augmentation = partial(setting, section="augmentation")
training = partial(setting, section="training")
loss = partial(setting, section="loss")
speed = partial(setting, section="speed")
tracking = partial(setting, section="tracking")
evaluation = partial(setting, section="evaluation")
output = partial(setting, section="output", changes_on_resume=True)
logging = partial(setting, section="experiment loggers and launchers", changes_on_resume=True)
plan = partial(setting, section="fine-tuning by plan")

_IN_ORDER = (
    profile,
    model,
    data,
    loader,
    augmentation,
    training,
    loss,
    speed,
    tracking,
    evaluation,
    output,
    logging,
    plan,
)
HEADINGS: tuple[str, ...] = tuple(declare.keywords["section"] for declare in _IN_ORDER)
