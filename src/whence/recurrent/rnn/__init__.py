"""The plain recurrent network: what it is (cell.py), its reference, and its compiled path (steps.c)."""
