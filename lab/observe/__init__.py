"""Debian's Prometheus and Alertmanager before real gateways: ``make observe-test`` and ``make observe``."""
