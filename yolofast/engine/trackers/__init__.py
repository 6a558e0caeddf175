"""Where else a run's figures go: TensorBoard, MLflow, Weights & Biases."""
