import torch

from yolofast.structures import LossTerms
from yolofast.train.losses.yolov7_criterion import QuadLoss


def test_the_total_counts_four_times_and_the_parts_are_reported_as_they_are():
    balance = torch.ones(3)

    class Loss:
        def __call__(self, raw, targets):
            part = raw[0].detach()
            return LossTerms(raw[0] * 3, {"box": part, "obj": part, "cls": part})

        def tensors(self):
            return [balance]

    raw = torch.tensor(2.0, requires_grad=True)
    terms = QuadLoss(Loss())([raw], None)
    assert terms.total == 24 and terms.box == terms.obj == terms.cls == 2
    assert torch.autograd.grad(terms.total, raw)[0] == 12
    assert QuadLoss(Loss()).tensors() == [balance]
    assert QuadLoss(lambda raw, targets: None).tensors() == []
