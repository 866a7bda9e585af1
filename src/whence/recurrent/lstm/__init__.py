"""The LSTM: what it is (cell.py), its reference, and its plain, compiled (steps.c) and Triton paths."""
