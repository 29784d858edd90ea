"""The command ``make page``."""
