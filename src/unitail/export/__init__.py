"""Export of classifiers and models to ONNX, for programs without Python."""
