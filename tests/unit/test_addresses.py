"""What the addresses in an issuer's metadata may look like, and which IP addresses are connected to for them."""

from __future__ import annotations

import pytest

from gateway.auth.addresses import address_refusal, check_address
from tests.each import each

ISSUER = "https://login.example.com"
LOCAL = "https://127.0.0.1:9000"
MACHINE = "points at this machine"
NOBODY = "points at a link-local, unspecified or multicast address"
CLOUD = "points at a cloud's metadata service"
ODD = "has an address that is not in its usual form"
PLAIN = "is not a plain URL"


REFUSED = {
    MACHINE: [
        "127.0.0.1",
        "127.9.9.9",
        "127.0.0.1.",
        "localhost",
        "LOCALHOST.",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[::ffff:0:127.0.0.1]",
        "[2002:7f00:1::]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b:1::127.0.0.1]",
        "[2001:0:c000:201::80ff:fffe]",  # Teredo, whose client is there with each bit turned around
        "[64:ff9b:1:7f00:0:100::]",
        "[fd00::5efe:7f00:1]",
        "127.0.0.1..",
    ],
    NOBODY: [
        "169.254.169.254",
        "[fe80::1]",
        "[fe80::1%25eth0]",
        "[::ffff:169.254.169.254]",
        "[2002:a9fe:a9fe::1]",
        "[64:ff9b::a9fe:a9fe]",
        "0.0.0.0",
        "[::]",
        "224.0.0.1",
        "[ff02::1]",
        "[64:ff9b:1:a9fe:a9:fe00::]",
        "[2001:db8::5efe:169.254.169.254]",  # ISATAP
    ],
    CLOUD: [
        "[fd00:ec2::254]",  # AWS
        "[fd00:ec2:0::fe]",
        "[fd00:ec2::23]",  # AWS, the credentials of a pod
        "[fd20:ce::254]",  # Google
        "[fd00:c1::a9fe:a9fe]",  # Oracle
        "192.0.0.192",
        "[fd00:42::42]",  # Scaleway
        "168.63.129.16",  # Azure
        "100.100.100.200",  # Alibaba
        "[::ffff:100.100.100.200]",
        "[64:ff9b::100.100.100.200]",
        "[64:ff9b:1::6464:64c8]",
        "[64:ff9b:1:6464:64:c800::]",  # its network's prefix has 48 bits
        "[64:ff9b:1:64:64:64c8::]",  # 56
        "[64:ff9b:1::64:6464:c800:0]",  # 64
        "[2002:6464:64c8::1]",
        "[2001:db8::200:5efe:100.100.100.200]",
        "[::100.100.100.200]",
    ],
    ODD: [
        "0x7f000001",
        "0x7F000001",
        "127.1",
        "2130706433",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "127.0.0.0x1",
    ],
    PLAIN: [
        "\uff11\uff12\uff17.0.0.1",
        "127\u30020\u30020\u30021",
        "\u217cocalhost",
        "127.0.0.%31",
        "login.example.com\\@127.0.0.1",
        "user@login.example.com",
        "login.example.com\t",
        "",
    ],
}


@each(("host", "reason"), [(host, reason) for reason, hosts in REFUSED.items() for host in hosts])
def test_an_address_in_metadata_is_plain_and_leads_neither_here_nor_nowhere(host: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^jwks_uri {reason}$"):
        check_address(f"https://{host}/keys", ISSUER, "jwks_uri")


@each(
    "host",
    [
        "keys.example.com", "xn--bcher-kva.example", "keys_1.example.com:8443", "10.0.0.7", "192.168.1.9", "[fd00::7]",
        "100.64.0.1", "93.184.215.14", "[2606:4700::1111]", "[2002:a00:7::1]", "[64:ff9b::10.0.0.7]", "1password.com",
        "[64:ff9b:1:a00:0:700::]", "100.100.100.199", "[fd00:ec3::254]", "[fec0::7]",
        "[2001:db8::5efe:10.0.0.7]", "[2001:db8::300:5efe:127.0.0.1]",
    ],
)  # fmt: skip
def test_names_and_public_and_private_addresses_are_fine(host: str) -> None:
    check_address(f"https://{host}/keys", ISSUER, "jwks_uri")


@each(
    "url",
    ["http://127.0.0.1:9000/keys", "http://localhost:9000/keys", "https://127.0.0.1/keys", "https://[::1]/keys"],
)
def test_an_issuer_on_loopback_may_keep_its_things_there(url: str) -> None:
    check_address(url, LOCAL, "jwks_uri")


@each("url", ["http://127.1/keys", "http://0x7f000001/keys", "http://keys.example.com/keys"])
def test_plain_http_is_for_loopback_in_its_usual_form(url: str) -> None:
    with pytest.raises(ValueError, match="is not https"):
        check_address(url, LOCAL, "jwks_uri")


@each("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"])
def test_a_resolved_address_of_this_machine_is_for_issuers_of_this_machine(address: str) -> None:
    assert address_refusal(address, local=False) == MACHINE
    assert address_refusal(address, local=True) is None


@each("address", ["169.254.169.254", "fe80::1%eth0", "0.0.0.0", "::", "ff02::1", "nonsense"])
def test_some_resolved_addresses_are_for_nobody(address: str) -> None:
    assert address_refusal(address, local=False)
    assert address_refusal(address, local=True)
