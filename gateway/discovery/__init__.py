"""Keep the current catalog of each view: refreshes, checks of shrinking, the fallback, notices of changes."""
