"""The plain recurrent network: what it is (cell.py), its reference, and its compiled (steps.c) and Triton paths."""
