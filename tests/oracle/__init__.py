"""The paper in plain NumPy float64, one sentence, loops over neurons, straight from the formulas; imports nothing of ours."""
