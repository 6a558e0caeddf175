import yolofast  # noqa: F401 - before OpenCV, which reads how many pixels are allowed when it is imported
