"""The network and its loss in a training loop of one's own: `python examples/own_loop.py`.

Two pictures are learnt by heart, so the loss has to fall.
"""

import torch

import yolofast

torch.manual_seed(0)
model = yolofast.build_model("yolov7-tiny", nc=3)
loss_of = yolofast.build_loss(model, "data/hyp.scratch.tiny.yaml", image_size=160, assigner="anchor")
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

pictures = torch.rand(2, 3, 160, 160)
rows = torch.tensor([[0, 1, 0.4, 0.5, 0.3, 0.2], [1, 2, 0.6, 0.6, 0.4, 0.5]])  # image, class, cx, cy, w, h
targets = yolofast.Targets.from_rows(rows, batch_size=2)

losses = []
for step in range(30):
    terms = loss_of(model(pictures), targets)
    optimizer.zero_grad()
    terms.total.backward()
    optimizer.step()
    losses.append(float(terms.total.detach()))
    if step % 5 == 4:
        print(f"step {step + 1:2}  loss {losses[-1]:.3f}")
assert losses[-1] < 0.8 * losses[0]
