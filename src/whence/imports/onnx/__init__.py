"""ONNX files as modules: `reading` makes plain data of a file, `module` a module of the data, `operators` say what nodes do."""
