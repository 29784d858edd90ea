"""Which catalog is current for whom: reading, refreshing, doubting, fallback, notices of changes."""
