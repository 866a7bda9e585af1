"""Whole corpora: every text of files of any size explained into a folder of Parquet files, and what they tell of the model."""
