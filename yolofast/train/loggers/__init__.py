"""Experiment loggers: TensorBoard, MLflow, Weights & Biases."""
