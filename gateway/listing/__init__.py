"""Dialects: the forms in which services list their methods, one file each."""
