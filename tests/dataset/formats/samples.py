"""A small data set of every form, as its tool writes it: the same three images and, as far as a form can say so, the
same three objects. `a.jpg` has a cat and a dog, `b.jpg` a dog, `c.jpg` shows nothing; all are 64 × 48 pixels.
"""

import json
import struct
import zlib

from tests.dataset.make import coco, image, write

CAT, DOG, BIG_DOG = (8, 12, 24, 36), (32, 6, 64, 24), (4, 4, 60, 44)
"""Left, top, right, bottom in pixels."""
OUTLINE = [8, 12, 24, 12, 24, 36, 16, 30, 8, 36]
"""Of the cat."""
OBJECTS = {"a": [("cat", CAT), ("dog", DOG)], "b": [("dog", BIG_DOG)], "c": []}


def images(folder, names="abc", suffix=".jpg"):
    for seed, name in enumerate(names):
        image(folder / f"{name}{suffix}", seed=seed)


def png_head(width, height):
    """All that a reader of headers sees of a picture with nothing behind it."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    end = b"\0\0\0\0IEND\xaeB`\x82"
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head)) + end


def voc(root, polygon=False):
    """VOC counts from 1, and the last pixel is inside."""
    images(root / "JPEGImages")
    for name, objects in OBJECTS.items():
        rows = ""
        for label, (left, top, right, bottom) in objects:
            corners = ""
            if polygon and label == "cat":
                pairs = zip(OUTLINE[0::2], OUTLINE[1::2], strict=True)
                corners = "".join(f"<x{i}>{x}</x{i}><y{i}>{y}</y{i}>" for i, (x, y) in enumerate(pairs, 1))
                corners = f"<polygon>{corners}</polygon>"
            rows += f"""
  <object>
    <name>{label}</name><pose>Unspecified</pose><truncated>0</truncated><difficult>{int(label == "cat")}</difficult>
    <bndbox><xmin>{left + 1}</xmin><ymin>{top + 1}</ymin><xmax>{right}</xmax><ymax>{bottom}</ymax></bndbox>{corners}
  </object>"""
        text = f"""<?xml version="1.0"?>
<annotation>
  <folder>VOC2007</folder><filename>{name}.jpg</filename>
  <size><width>64</width><height>48</height><depth>3</depth></size>{rows}
</annotation>
"""
        write(root / "Annotations" / f"{name}.xml", text)
    write(root / "ImageSets/Main/train.txt", "a\nc\n")
    write(root / "ImageSets/Main/val.txt", "b\n")
    write(root / "ImageSets/Main/dog_train.txt", "a  1\nc -1\n")


def cvat(root):
    images(root / "images")
    rows = ""
    for number, (name, objects) in enumerate(OBJECTS.items()):
        split = "Validation" if name == "b" else "Train"
        rows += f'  <image id="{number}" name="{name}.jpg" subset="{split}" width="64" height="48">\n'
        for label, (left, top, right, bottom) in objects:
            if label == "cat":
                points = ";".join(f"{x:.2f},{y:.2f}" for x, y in zip(OUTLINE[0::2], OUTLINE[1::2], strict=True))
                rows += f'    <polygon label="cat" source="manual" occluded="0" points="{points}" z_order="0">\n'
                rows += '      <attribute name="colour">red</attribute>\n    </polygon>\n'
            else:
                corners = f'xtl="{left:.2f}" ytl="{top:.2f}" xbr="{right:.2f}" ybr="{bottom:.2f}"'
                rows += f'    <box label="dog" source="manual" occluded="1" {corners} z_order="0"></box>\n'
        rows += "  </image>\n"
    labels = "".join(f"<label><name>{name}</name><color>#fff</color></label>" for name in ("cat", "dog"))
    write(
        root / "annotations.xml",
        f"""<?xml version="1.0" encoding="utf-8"?>
<annotations>
  <version>1.1</version>
  <meta><task><id>7</id><name>pets</name><size>3</size><labels>{labels}</labels></task></meta>
{rows}</annotations>
""",
    )


def cvat_video(root, frames=5):
    images(root / "images", [f"frame_{i:06}" for i in range(frames)], ".png")
    write(
        root / "annotations.xml",
        """<?xml version="1.0" encoding="utf-8"?>
<annotations>
  <version>1.1</version>
  <meta><task><id>8</id><name>street</name><size>5</size><labels><label><name>car</name></label></labels>
    <original_size><width>64</width><height>48</height></original_size></task></meta>
  <track id="0" label="car" source="manual">
    <box frame="0" keyframe="1" outside="0" occluded="0" xtl="0" ytl="10" xbr="10" ybr="20" z_order="0"></box>
    <box frame="2" keyframe="1" outside="0" occluded="0" xtl="20" ytl="10" xbr="30" ybr="20" z_order="0"></box>
    <box frame="3" keyframe="1" outside="1" occluded="0" xtl="20" ytl="10" xbr="30" ybr="20" z_order="0"></box>
  </track>
</annotations>
""",
    )


def labelme(root):
    images(root)
    for name, objects in OBJECTS.items():
        shapes = []
        for label, (left, top, right, bottom) in objects:
            is_cat = label == "cat"
            pairs = [list(pair) for pair in zip(OUTLINE[0::2], OUTLINE[1::2], strict=True)]
            shapes.append(
                {
                    "label": label,
                    "points": pairs if is_cat else [[right, bottom], [left, top]],
                    "group_id": None,
                    "shape_type": "polygon" if is_cat else "rectangle",
                    "flags": {},
                }
            )
        content = {
            "version": "5.2.1",
            "flags": {},
            "shapes": shapes,
            "imagePath": f"..\\pictures\\{name}.jpg",
            "imageData": None,
            "imageHeight": 48,
            "imageWidth": 64,
        }
        write(root / f"{name}.json", json.dumps(content, indent=2))


def labelstudio(root, small=False):
    """`small`: JSON-MIN."""
    images(root / "media")
    tasks = []
    for number, (name, objects) in enumerate(OBJECTS.items(), 1):
        results = []
        for label, (left, top, right, bottom) in objects:
            if label == "cat":
                pairs = zip(OUTLINE[0::2], OUTLINE[1::2], strict=True)
                value = {"points": [[x / 0.64, y / 0.48] for x, y in pairs], "polygonlabels": [label]}
            else:
                sides = {"width": (right - left) / 0.64, "height": (bottom - top) / 0.48}
                value = {"x": left / 0.64, "y": top / 0.48, **sides, "rotation": 0, "rectanglelabels": [label]}
            size = {"original_width": 64, "original_height": 48}
            results.append({**value, **size} if small else {"id": f"r{len(results)}", "value": value, **size})
        address = f"/data/upload/3/0a1b2c3d-{name}.jpg"
        if small:
            tasks.append({"image": address, "id": number, "label": results, "annotator": 1})
        else:
            done = {"id": number, "was_cancelled": False, "result": results}
            tasks.append({"id": number, "data": {"image": address}, "annotations": [done], "predictions": []})
    write(root / "project-3-at-2026.json", json.dumps(tasks))


def coco_files(root, style="coco"):
    """`roboflow`: a file in each split's folder, with an empty category in front."""
    for split, names in (("train", "ac"), ("valid" if style == "roboflow" else "val", "b")):
        folder = root / split if style == "roboflow" else root / f"images/{split}2017"
        for name in names:
            image(folder / f"{name}.jpg", seed="abc".index(name))
        listed = {i: (f"{name}.jpg", 64, 48) for i, name in enumerate(names, 10)}
        boxes = []
        for i, name in enumerate(names, 10):
            for label, (left, top, right, bottom) in OBJECTS[name]:
                outline = {"segmentation": [OUTLINE]} if label == "cat" else {"segmentation": []}
                box = [left, top, right - left, bottom - top]
                boxes.append((i, {"cat": 17, "dog": 18}[label], box, {"iscrowd": 0, **outline}))
        file = (
            folder / "_annotations.coco.json"
            if style == "roboflow"
            else root / f"annotations/instances_{split}2017.json"
        )
        coco(file, listed, boxes, {17: "cat", 18: "dog"})
        if style == "roboflow":
            content = json.loads(file.read_text())
            content["categories"].insert(0, {"id": 0, "name": "pets", "supercategory": "none"})
            write(file, json.dumps(content))


def yolo_rows(name):
    rows = ""
    for label, (left, top, right, bottom) in OBJECTS[name]:
        values = (left + right) / 128, (top + bottom) / 96, (right - left) / 64, (bottom - top) / 48
        rows += f"{['cat', 'dog'].index(label)} {' '.join(f'{value:.8g}' for value in values)}\n"
    return rows


def yolo(root):
    for split, names in (("train", "ac"), ("val", "b")):
        for name in names:
            image(root / f"images/{split}/{name}.jpg", seed="abc".index(name))
            write(root / f"labels/{split}/{name}.txt", yolo_rows(name))
    write(root / "data.yaml", "path: .\ntrain: images/train\nval: images/val\nnames: [cat, dog]\n")


def roboflow(root):
    """As downloaded: the paths of its yaml lead out of its folder."""
    for split, names in (("train", "ac"), ("valid", "b")):
        for name in names:
            own = f"{name}_jpg.rf.0123456789abcdef0123456789abcdef"
            image(root / f"{split}/images/{own}.jpg", seed="abc".index(name))
            write(root / f"{split}/labels/{own}.txt", yolo_rows(name))
    write(root / "README.roboflow.txt", "pets - v1\nExported via roboflow.com\n")
    write(
        root / "data.yaml",
        "train: ../train/images\nval: ../valid/images\ntest: ../test/images\n\nnc: 2\nnames: ['cat', 'dog']\n\n"
        "roboflow:\n  workspace: me\n  project: pets\n  version: 1\n",
    )


def darknet(root):
    """CVAT's YOLO 1.1."""
    for name in OBJECTS:
        image(root / f"obj_train_data/{name}.jpg", seed="abc".index(name))
        write(root / f"obj_train_data/{name}.txt", yolo_rows(name))
    write(root / "obj.data", "classes = 2\nnames = data/obj.names\ntrain = data/train.txt\nbackup = backup/\n")
    write(root / "obj.names", "cat\ndog\n")
    write(root / "train.txt", "".join(f"data/obj_train_data/{name}.jpg\n" for name in OBJECTS))


def kitti(root):
    images(root / "training/image_2", suffix=".png")
    for name, objects in OBJECTS.items():
        rows = "".join(
            f"{label} 0.00 0 -1.57 {' '.join(f'{v:.2f}' for v in box)} 1 2 3 4 5 6 0.1\n" for label, box in objects
        )
        rows += "DontCare -1 -1 -10 1.00 1.00 9.00 9.00 -1 -1 -1 -1000 -1000 -1000 -10\n" * (name == "a")
        write(root / f"training/label_2/{name}.txt", rows)
        write(root / f"training/calib/{name}.txt", "P0: 7.215e+02 0.0 6.095e+02\nR0_rect: 9.999e-01 9.8e-03\n")


def openimages(root):
    header = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction"
    header += ",IsInside\n"
    codes = {"cat": "/m/01yrx", "dog": "/m/0bt9lr"}
    for split, names in (("train", "ac"), ("validation", "b")):
        rows = ""
        for name in names:
            image(root / f"{split}/{name}.jpg", seed="abc".index(name))
            for label, (left, top, right, bottom) in OBJECTS[name]:
                box = f"{left / 64},{right / 64},{top / 48},{bottom / 48}"
                rows += f"{name},xclick,{codes[label]},1,{box},0,0,0,0,0\n"
        rows += "elsewhere,xclick,/m/01yrx,1,0.1,0.2,0.1,0.2,0,0,0,0,0\n"
        write(root / f"{split}-annotations-bbox.csv", header + rows)
    write(root / "class-descriptions-boxable.csv", "/m/01yrx,cat\n/m/0bt9lr,dog\n/m/011k07,Tortoise\n")


def visdrone(root):
    """Its own classes: a car stands for the cat, a van for the dog."""
    for split, names in (("train", "ac"), ("val", "b")):
        folder = root / f"VisDrone2019-DET-{split}"
        for name in names:
            image(folder / f"images/{name}.jpg", seed="abc".index(name))
            rows = ""
            for label, (left, top, right, bottom) in OBJECTS[name]:
                rows += f"{left},{top},{right - left},{bottom - top},1,{4 if label == 'cat' else 5},0,0\n"
            rows += "1,1,5,5,0,0,0,0,\n2,2,5,5,1,11,0,0\n" * (name == "a")
            write(folder / f"annotations/{name}.txt", rows)


SAMPLES = {
    "voc": voc, "cvat": cvat, "labelme": labelme, "labelstudio": labelstudio, "coco": coco_files, "yolo": yolo,
    "roboflow": roboflow, "kitti": kitti, "openimages": openimages, "visdrone": visdrone,
}  # fmt: skip
WITH_OUTLINES = ("cvat", "labelme", "labelstudio", "coco")
WITHOUT_SPLITS = ("labelme", "labelstudio", "kitti")
