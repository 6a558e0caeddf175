"use strict";
const by = (id) => document.getElementById(id);

let latest = 0;

async function show(file, number) {
  const answer = await fetch("v1/detect", { method: "POST", body: file });
  const found = await answer.json();
  const picture = answer.ok ? await createImageBitmap(file) : null;
  if (number !== latest) return; // another image was dropped meanwhile
  if (!answer.ok) { by("said").textContent = found.error; return; }
  const count = found.detections.length;
  by("said").textContent = `${count} object${count === 1 ? "" : "s"}, ${found.ms.network} ms`;
  draw(picture, found.detections);
  const rows = found.detections.map((one) => {
    const row = document.createElement("tr");
    for (const text of [one.name, one.score.toFixed(3), one.box.join(", ")]) {
      row.appendChild(document.createElement("td")).textContent = text;
    }
    return row;
  });
  by("rows").replaceChildren(...rows);
  document.querySelector("table").hidden = count === 0;
}

function draw(picture, detections) {
  const canvas = by("picture"), pen = canvas.getContext("2d");
  [canvas.width, canvas.height] = [picture.width, picture.height];
  pen.drawImage(picture, 0, 0);
  const thick = Math.max(2, Math.round(Math.max(picture.width, picture.height) / 400));
  pen.lineWidth = thick;
  pen.font = `${8 * thick}px sans-serif`;
  for (const one of detections) {
    const [left, top, right, low] = one.box, colour = `hsl(${(one.class * 137) % 360} 80% 45%)`;
    pen.strokeStyle = pen.fillStyle = colour;
    pen.strokeRect(left, top, right - left, low - top);
    pen.fillText(`${one.name} ${one.score.toFixed(2)}`, left, Math.max(8 * thick, top - thick));
  }
}

function clear() {
  by("picture").width = by("picture").height = 0;
  by("rows").replaceChildren();
  document.querySelector("table").hidden = true;
}

function take(files) {
  if (!files.length) return;
  const number = ++latest;
  clear(); // what was found in another image
  by("said").textContent = "looking …";
  show(files[0], number).catch(() => { if (number === latest) by("said").textContent = "the service does not answer"; });
}

const drop = by("drop");
by("file").addEventListener("change", (event) => take(event.target.files));
for (const name of ["dragover", "dragleave", "drop"]) {
  drop.addEventListener(name, (event) => {
    event.preventDefault();
    drop.classList.toggle("over", name === "dragover");
    if (name === "drop") take(event.dataTransfer.files);
  });
}
