"""The rows of ``make fault``."""
