"""Any unmodified module: record what it computes, then hand relevance back through the record."""
