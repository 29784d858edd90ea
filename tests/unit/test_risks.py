"""What names of methods say of harm: secrets are hidden, what moves money or signs is marked; nothing else is."""

from __future__ import annotations

from typing import Any

from gateway.catalog.build import Builder
from gateway.catalog.curation import CHANGES_SITE, lint_catalog, moves_value, reveals_secret
from gateway.model import Catalog, Listing, Method, Structure
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params
from tests.each import each
from tests.pace import quickly

DESTRUCTIVE = {"destructiveHint": True}

REVEALING = """
    dumpprivkey dumpprivkeys getmasterprivate getseed getprivatekeys dumpwallet exportmnemonic get_mnemonic
    getNewMnemonic wallet.getSeedPhrase z_exportkey z_exportwallet z_exportviewingkey dumphdinfo query_key
    getPassword users.list_secrets getSecret dumpmasterprivatekey wallet_private_keys personal_exportRawKey
    show_recovery_phrase DumpPrivKey wallet.seed.get seed.show secrets.list getSeed2 get_seed_v2 getSeedHex
    exportWalletWithPrivateKeys get_spend_key dumpwif
"""
KEEPING = """
    importprivkey sweepprivkeys signmessagewithprivkey core.get_seeders torrent.seeders proceed exceeded
    superseded reseed getPrivateMessages setPassword seed getpublickeys list_keys keys.list getinfo
    private_messages.list setPrivate validate_mnemonic key.rotate unlock secrets.create dumpster exportReport
    getmasternode getSeedling monkeyHash passport_check keyboard.list passwordPolicy.get loginWithMnemonic
    isPrivateKey dumpwifi importwif
"""
MOVING = """
    sendtoaddress sendmany send sendall sendrawtransaction eth_sendTransaction eth_sendRawTransaction
    signrawtransaction signrawtransactionwithwallet eth_sign personal_sign eth_signTypedData_v4 signPsbt
    pay_invoice lnd.sendpayment keysend withdraw transfer transfer_split sweep_all bumpfee wallet_sendCalls
    payments.create createPayment broadcasttransaction payto payinvoice paytomany refund_order sign_transfer
"""
STAYING = """
    get_transfers transfers.list signin sign_in user.signUp assign design send_message sendEmail notify.send
    getpayment payment_status payload listpayments estimatefee validateaddress decoderawtransaction
    createrawtransaction verifymessage walletcreatefundedpsbt getSignature signer.list transfer.status
    core.add_torrent_file spender.list checksign resend listtransactions books.search orders.create sender
"""


@each("name", REVEALING.split())
def test_what_reveals_a_secret_is_told_by_its_name(name: str) -> None:
    assert reveals_secret(name)


@each("name", KEEPING.split())
def test_what_takes_a_secret_or_only_sounds_alike_reveals_none(name: str) -> None:
    assert not reveals_secret(name)


@each("name", MOVING.split())
def test_what_moves_money_or_signs_is_told_by_its_name(name: str) -> None:
    assert moves_value(name)


@each("name", STAYING.split())
def test_what_reads_or_only_sounds_alike_moves_nothing(name: str) -> None:
    assert not moves_value(name)


@each("name", ["", "_", "日本", "a" * 10_000, "sendpay" * 2000, "A" * 10_000, "seedkey" * 9])
def test_any_name_is_judged_quickly(name: str) -> None:
    with quickly(0.05):
        reveals_secret(name)
        moves_value(name)


async def offered(*names: str, **knobs: Any) -> Catalog:
    methods = tuple(Method(name, "", "Does it.", structure=Structure.BY_NAME) for name in names)
    return await Builder(Params(), ValidatorCache()).build_catalog(
        Listing("static", methods), CatalogSettings.model_validate(knobs)
    )


async def test_what_reveals_a_secret_is_hidden_until_the_operator_has_a_list_of_his_own() -> None:
    assert (await offered("getinfo", "dumpprivkeys")).hidden == ("dumpprivkeys",)
    catalog = await offered("getinfo", "dumpprivkeys", exclude=["stop"])
    assert catalog.names == ("dumpprivkeys", "getinfo")
    said = " ".join(lint_catalog(catalog, CatalogSettings(exclude=("stop",))))
    assert "dumpprivkeys: hidden by default, and offered because catalog.exclude has a list of its own" in said


async def test_what_moves_money_is_offered_marked_and_named() -> None:
    catalog = await offered("getinfo", "sendtoaddress", "signmessage")
    hints = {tool.name: tool.annotations.get("destructiveHint") for tool in catalog.tools}
    assert hints == {"getinfo": None, "sendtoaddress": True, "signmessage": True}
    assert "sendtoaddress, signmessage: by their names they move money or sign" in " ".join(
        lint_catalog(catalog, CatalogSettings())
    )


@each("name", sorted(CHANGES_SITE))
async def test_what_changes_a_whole_drupal_site_is_marked_in_drupals_dialects_alone(name: str) -> None:
    for dialect, hints in (("drupal", DESTRUCTIVE), ("jsonrpc_mcp", DESTRUCTIVE), ("openrpc", {})):
        listing = Listing(dialect, (Method(name, structure=Structure.BY_NAME, parameters=()),))
        (tool,) = (await Builder(Params(), ValidatorCache()).build_catalog(listing, CatalogSettings())).tools
        assert (tool.annotations, tool.confirm) == (hints, False)


async def test_a_person_may_be_asked_before_money_moves() -> None:
    catalog = await offered("getinfo", "sendtoaddress", tools={"*": {"confirm": "destructive"}})
    assert {tool.name: tool.confirm for tool in catalog.tools} == {"getinfo": False, "sendtoaddress": True}


async def test_the_operator_knows_better() -> None:
    knobs = {"sendtoaddress": {"annotations": {"destructiveHint": False}}}
    (tool,) = (await offered("sendtoaddress", tools=knobs)).tools
    assert tool.annotations == {"destructiveHint": False}


async def test_a_trusted_backends_word_that_it_changes_nothing_counts() -> None:
    method = Method("sign", "", "x", structure=Structure.BY_NAME, annotations={"readOnlyHint": True})
    for trusted, hints in ((True, {"readOnlyHint": True}), (False, {"destructiveHint": True})):
        knobs = CatalogSettings(trust_annotations=trusted)
        (tool,) = (await Builder(Params(), ValidatorCache()).build_catalog(Listing("static", (method,)), knobs)).tools
        assert tool.annotations == hints


async def test_only_what_introspects_is_hidden_of_a_services_system() -> None:
    names = ("system.info", "system.reboot", "system.ntpserver.query", "system.listMethods", "system.multicall")
    assert (await offered(*names)).names == ("system.info", "system.ntpserver.query")
