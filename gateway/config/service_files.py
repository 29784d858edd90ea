"""The files that a service's settings name, read when the service is built."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from gateway.catalog.pins import PinError, Pins, read_pins
from gateway.concurrency.threads import read_apart
from gateway.config import source as config
from gateway.config.key_file import KeyFileError, read_keys
from gateway.http_client.tls import TlsFiles
from gateway.listing.dialect import NoListing
from gateway.listing.forms import form_of
from gateway.listing.static import read_fallback
from gateway.model import Listing
from gateway.settings import ResourceSettings, ServiceSettings
from gateway.settings.auth import ApiKey

KEYS: Final = "auth.keys.file"
LISTED: Final = "backend.listing.file"
"""Knob whose file is read with each listing, so that a change of the file needs no other service."""


@dataclass(frozen=True)
class ServiceFiles:
    """Hold what was read from a service's files. ``digests`` are SHA-256 of their content, by knob."""

    digests: Mapping[str, bytes]
    pins: Pins | None = field(compare=False, default=None)
    fallback: Listing | None = field(compare=False, default=None)
    keys: tuple[ApiKey, ...] = field(compare=False, default=())

    @classmethod
    async def read(cls, settings: ResourceSettings) -> Self:
        """Read the files. Raises :class:`config.ConfigError` where one cannot be used."""
        digests = await read_apart(_read_digests, settings)
        await read_apart(_check_tls, settings)
        keys: tuple[ApiKey, ...] = ()
        pins, fallback, key_file = None, None, key_file_of(settings)
        if key_file is not None:
            with _faults_of(settings.knob(KEYS)):
                keys = await read_apart(read_keys, key_file)
        if isinstance(settings, ServiceSettings):
            catalog = settings.catalog
            if catalog.pin is not None:
                with _faults_of(settings.knob("catalog.pin")):
                    pins = Pins(await read_apart(read_pins, Path(catalog.pin)))
            if catalog.fallback is not None:
                with _faults_of(settings.knob("catalog.fallback")):
                    fallback = await read_fallback(catalog.fallback, form_of(settings.backend))
        return cls(digests, pins, fallback, keys)

    def of(self, section: str) -> dict[str, bytes]:
        """Return the digests of the files that a section names."""
        return {knob: digest for knob, digest in self.digests.items() if knob.startswith(f"{section}.")}

    def without(self, knob: str) -> Self:
        """Return these as if the file of a knob had not been read, so that whatever it has counts as a change."""
        return replace(self, digests={other: digest for other, digest in self.digests.items() if other != knob})


def key_file_of(settings: ResourceSettings) -> Path | None:
    """Return the file of the API keys that are accepted, None where there are none."""
    file = settings.auth.keys.file
    return Path(file) if file is not None and settings.auth.takes_keys else None


@contextmanager
def _faults_of(knob: str) -> Iterator[None]:
    """Raise :class:`config.ConfigError` for what is wrong with the file of a knob."""
    try:
        yield
    except (KeyFileError, NoListing, PinError) as error:
        raise config.ConfigError([f"{knob}: {error}"]) from None


def _read_digests(settings: ResourceSettings) -> dict[str, bytes]:
    """Return the digests of the files that are read once."""
    files = config.files_of_resource(settings)
    digests = {knob: digest_of(file) for knob, file in files if knob != LISTED}
    return {knob: digest for knob, digest in digests.items() if digest}


def digest_of(file: Path) -> bytes | None:
    """Return the SHA-256 of a file, None where it cannot be read: code that needs it reports what is wrong with it."""
    try:
        return hashlib.sha256(file.read_bytes()).digest()
    except OSError:
        return None


def _check_tls(settings: ResourceSettings) -> None:
    """Raise :class:`config.ConfigError` where a TLS file is unusable, before anything is open that must be closed."""
    issuers = settings.auth.active_issuers
    knob = settings.knob("auth.issuers.ca_file")
    try:
        own = map(backend_tls, (settings,) if isinstance(settings, ServiceSettings) else ())
        for files in (*own, *(TlsFiles(issuer.ca_file, ca_knob=knob) for issuer in issuers)):
            files.context()
    except OSError as error:
        raise config.ConfigError([f"{error.filename}: {error.strerror}"]) from None


def backend_tls(settings: ServiceSettings) -> TlsFiles:
    """Return the TLS files for the backend, with their knobs for errors."""
    files = settings.backend.tls
    knobs = settings.knob("backend.tls.ca_file"), settings.knob("backend.tls.cert_file")
    return TlsFiles(files.ca_file, files.cert_file, files.key_file, *knobs, files.server_name, files.fingerprint)
