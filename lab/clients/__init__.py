"""The tables of ``make clients``: official clients and agent frameworks."""
