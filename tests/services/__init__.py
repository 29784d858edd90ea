"""The gateway in front of real services: the programs (`backends/`), their starter and the tests."""
