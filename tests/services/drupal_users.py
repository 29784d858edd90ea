"""The users of our Drupal, as settings of a gateway that calls on their behalf."""

import base64


def basic(name: str, password: str | None = None) -> str:
    """A name and a password, which is the name again."""
    return "Basic " + base64.b64encode(f"{name}:{password or name}".encode()).decode()


def bearer(name: str) -> str:
    """The token of a user."""
    return f"Bearer tok-{name}"


def as_user(credential: str | None, section: str = "backend.credentials") -> tuple[str, ...]:
    """The settings that show this credential; none without one."""
    return (
        () if credential is None else (f"{section}.mode=static", f"{section}.send.headers.Authorization={credential}")
    )
