"""Tasks whose right relevance is known by construction, one file each, and how every method does on them."""
