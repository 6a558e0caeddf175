"""What YOLOv7 and YOLOX do differently: a family is one file and one line of a table."""
