"""What the operators of ONNX compute, as plain torch calls; `table` lists them."""
