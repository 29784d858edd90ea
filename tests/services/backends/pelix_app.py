"""PyPI jsonrpclib-pelix: `system.listMethods` and `system.methodHelp`, which gives docstrings, and no signatures.

Usage: python pelix_app.py --port N      (POST http://127.0.0.1:N/)
"""

import argparse
from typing import Any

from jsonrpclib.SimpleJSONRPCServer import SimpleJSONRPCServer


def seats_book(row: str, seat: int, name: str = "nobody") -> dict[str, Any]:
    """Book a seat.

    :param str row: letter of the row
    :param int seat: number of the seat
    :param name: who sits there
    :type name: string, optional
    :rtype: dict
    """
    return {"row": row, "seat": seat, "name": name}


def seats_free(rows: list[str]) -> int:
    """Count the free seats.

    Args:
        rows (list of str): letters of the rows

    Returns:
        int: how many
    """
    return 7 * len(rows)


def seats_note(*words: str) -> str:
    """seats_note(*words)

    Take a note."""
    return " ".join(words)


def reversed_fields(a: float, b: float) -> float:
    """Divide.

    :param b: divisor
    :param a: dividend
    """
    return a / b


def first_missing(source: str, target: str, amount: int) -> str:
    """Transfer.

    Args:
        target: who gets it
        amount: how much
    """
    return f"{amount} from {source} to {target}"


def one_only(a: int, b: int = 2) -> int:
    """Add.

    Parameters
    ----------
    a : int
        one number
    """
    return 10 * a + b


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    server = SimpleJSONRPCServer(("127.0.0.1", parser.parse_args().port), logRequests=False)
    for function in (seats_book, seats_free, seats_note, reversed_fields, first_missing, one_only):
        server.register_function(function, function.__name__.replace("_", "."))
    server.register_introspection_functions()
    server.serve_forever()
