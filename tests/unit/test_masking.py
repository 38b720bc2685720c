"""Secrets and personal data are found and masked; what only looks like them is left unchanged."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.policies.masking import GROUPS, KINDS, MASKS, Secret, find, is_card, is_iban, masked, masked_value
from recollect.policies.masking import parse_kinds as parsed

BOTH = parsed("secrets, personal")
SECRETS = parsed("secrets")

# Keys in pieces: whole ones, though made up, would be taken for real by secret scanners.
CHANCE = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6kL9n"
OPENAI = "sk" + f"-proj-{CHANCE}{CHANCE}"
ANTHROPIC = "sk" + f"-ant-api03-{CHANCE}-{CHANCE}AA"
ROUTER = "sk" + "-or-v1-" + "0123456789abcdef" * 4
AWS_ID, AWS_SECRET = "AKIA" + "IOSFODNN7QUARTER", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYQUARTERKEY"
GITHUB, GITHUB_FINE = "ghp" + f"_{CHANCE[:36]}", "github" + f"_pat_{CHANCE[:22]}_{CHANCE}"
GITLAB, SLACK = "glpat" + f"-{CHANCE[:20]}", "xox" + f"b-123456789012-1234567890123-{CHANCE[:24]}"
GOOGLE, STRIPE = "AIza" + f"Sy{CHANCE[:33]}", "sk" + f"_live_{CHANCE[:24]}"
HUGGING, NPM, PYPI = "hf" + f"_{CHANCE[:34]}", "npm" + f"_{CHANCE[:36]}", "pypi" + f"-AgEIcHlwaS5vcmc{CHANCE}"
SENDGRID, TELEGRAM = "SG" + f".{CHANCE[:22]}.{CHANCE}", "110201543" + f":AA{CHANCE[:33]}"
HOOK = f"T0123ABCD/B0123ABCD/{CHANCE[:24]}"
JWT = "eyJ" + f"hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{CHANCE}"
PEM = "-----BEGIN RSA PRIVATE" + f" KEY-----\nMIIEowIBAAKCAQEA{CHANCE}\n{CHANCE}==\n-----END RSA PRIVATE KEY-----"
PEM_CUT = "-----BEGIN PRIVATE" + f" KEY-----\n{CHANCE}\n{CHANCE}"

FOUND = [
    # A text with the find between ⟦ and ⟧, and its kind.
    (f"use ⟦{OPENAI}⟧ for now", "api_key"),
    (f"export ANTHROPIC_API_KEY=⟦{ANTHROPIC}⟧", "api_key"),
    (f"router: ⟦{ROUTER}⟧.", "api_key"),
    (f"the id is ⟦{AWS_ID}⟧, keep it", "api_key"),
    (f"aws_secret_access_key = ⟦{AWS_SECRET}⟧", "api_key"),
    (f"push with ⟦{GITHUB}⟧", "api_key"),
    (f"https://⟦{GITHUB_FINE}⟧@github.com/ann/tea.git", "api_key"),
    (f"CI uses ⟦{GITLAB}⟧", "api_key"),
    (f"bot ⟦{SLACK}⟧ posts it", "api_key"),
    (f"maps?key=⟦{GOOGLE}⟧&v=3", "api_key"),
    (f"stripe ⟦{STRIPE}⟧", "api_key"),
    (f"(⟦{HUGGING}⟧)", "api_key"),
    (f"//registry/:_authToken=⟦{NPM}⟧", "api_key"),
    (f"twine -p ⟦{PYPI}⟧", "api_key"),
    (f"mail by ⟦{SENDGRID}⟧", "api_key"),
    (f"bot ⟦{TELEGRAM}⟧", "api_key"),
    (f"https://hooks.slack.com/services/⟦{HOOK}⟧", "api_key"),
    (f'{{"api_key": "⟦{CHANCE[:20]}⟧"}}', "api_key"),
    ("API key: ⟦9f8e7d6c5b4a39281706⟧", "api_key"),
    ("client_secret='⟦q8Zk2LmN0pR4tV6x⟧'", "api_key"),
    ("my access token is ⟦a1b2c3d4e5f6g7h8⟧", "api_key"),
    (f"cookie ⟦{JWT}⟧;", "token"),
    (f"Authorization: Bearer ⟦{CHANCE}⟧", "token"),
    ("curl -H 'authorization: bearer ⟦abc123def456ghi789⟧'", "token"),
    ("Authorization: Basic ⟦YW5uOmh1bnRlcjIhISE=⟧", "token"),
    (f"here it is:\n⟦{PEM}⟧\nthanks", "private_key"),
    (f"it was cut off: ⟦{PEM_CUT}⟧", "private_key"),
    (json.dumps({"key": PEM}).replace("-----BEGIN", "⟦-----BEGIN").replace("KEY-----\"", "KEY-----⟧\""), "private_key"),
    ("postgresql://ann:⟦s3cret⟧@db.example.org/tea", "password"),
    ("redis://:⟦hunter2⟧@cache:6379/0", "password"),
    ("mongodb+srv://ann:⟦p@ss:word⟧@cluster0.mongodb.net", "password"),
    ("My password is ⟦hunter2⟧.", "password"),
    ("my password is ⟦swordfish⟧", "password"),
    ("the wifi password: ⟦Correct-Horse-42⟧", "password"),
    ("password=⟦swordfish⟧ dbname=tea", "password"),
    ("/login?password=⟦swordfish⟧&user=ann", "password"),
    ("DB_PASSWORD=⟦k9!xQ2⟧", "password"),
    ('{"user": "ann", "password": "⟦correct horse battery staple⟧"}', "password"),
    ("passphrase is '⟦open sesame⟧'", "password"),
    ("Mein Passwort: ⟦geheim123⟧", "password"),
    ("pwd: ⟦Tr0ub4dor&3⟧", "password"),
    ("My PIN is ⟦4711⟧.", "password"),
    ("pin code: ⟦90210⟧", "password"),
    ("card ⟦4111 1111 1111 1111⟧ 12/28", "card"),
    ("⟦4111111111111111⟧", "card"),
    ("it is ⟦5555-5555-5555-4444⟧, thanks", "card"),
    ("MC ⟦2223003122003222⟧", "card"),
    ("amex ⟦3782 822463 10005⟧", "card"),
    ("amex ⟦371449635398431⟧.", "card"),
    ("discover ⟦6011 1111 1111 1117⟧", "card"),
    ("diners ⟦30569309025904⟧", "card"),
    ("jcb ⟦3530111333300000⟧", "card"),
    ("union ⟦6200000000000005⟧", "card"),
    ("pay to ⟦DE89 3704 0044 0532 0130 00⟧ by Friday", "iban"),
    ("⟦GB29NWBK60161331926819⟧", "iban"),
    ("iban ⟦fr1420041010050500013m02606⟧", "iban"),
    ("⟦NL91 ABNA 0417 1643 00⟧.", "iban"),
    ("⟦CH93 0076 2011 6238 5295 7⟧ or", "iban"),
    ("⟦MT84 MALT 0110 0001 2345 MTLC AST0 01S⟧", "iban"),
    ("ssn ⟦123-45-6789⟧", "ssn"),
    ("my SSN is ⟦123 45 6789⟧", "ssn"),
    ("Social Security Number: ⟦123456789⟧", "ssn"),
    ("Mail ⟦ann@example.com⟧.", "email"),
    ("<⟦ann.lee+tea@mail.example.co.uk⟧>", "email"),
    ("mailto:⟦jürgen@müller.de⟧", "email"),
    ("ANN: ⟦ANN_LEE@EXAMPLE.ORG⟧!", "email"),
    ("ring ⟦+49 30 901820⟧", "phone"),
    ("⟦+14155552671⟧", "phone"),
    ("⟦+1 (415) 555-2671⟧ after six", "phone"),
    ("⟦+44 20 7946 0958⟧,", "phone"),
    ("⟦+33.6.12.34.56.78⟧", "phone"),
    ("or ⟦0049 30 901820⟧", "phone"),
    ("⟦(415) 555-2671⟧", "phone"),
    ("⟦415-555-2671⟧ is the office", "phone"),
    ("my phone number is ⟦0664 1234567⟧", "phone"),
    ("call me at ⟦030/1234567⟧.", "phone"),
    ("from ⟦93.184.216.34⟧ at night", "ip"),
    ("host=⟦192.168.17.5⟧:8080", "ip"),
]  # fmt: skip

NOT_FOUND = [
    # numbers that are something else
    "order 112-7654321-1234567", "order #4111111111111112", "invoice 2024-000123", "4111 1111 1111 1112",
    "tracking 1Z999AA10123456784", "parcel 00340434161094042557", "customer 100200300", "ticket 123456789",
    "2024-05-01", "01/05/2024", "2024-05-01T10:30:00Z", "2024-05-01T10:30:00.123456+02:00", "20240501103000",
    "1714559400000", "1714559400", "1714559400123456789", "10:30:45", "550e8400-e29b-41d4-a716-446655440000",
    "12345678-1234-1234-1234-123456789012", "37f37db", "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "ISBN 978-3-16-148410-0", "ISBN 0-306-40615-2",
    "9783161484100", "EAN 4006381333931", "3.14159265358979", "1,234,567,890.12", "+48.8583701, +2.2944813",
    "+12 degrees",
    "between 1000 and 2000 euros", "300 x 250 x 100", "row 4111, 1111, 1111, 1111", "DE89 3704 0044 0532 0130 01",
    "GB29NWBK60161331926818", "AB12 is a place", "000-12-3456", "666-12-3456", "900-12-3456", "123-00-4567",
    "123-45-0000", "1-800-FLOWERS", "1.2.3.4", "version 10.12.13.14", "section 12.3.4.5", "127.0.0.1", "0.0.0.0",
    "255.255.255.0", "300.200.100.10", "v12.13.14.15", "10.0.19045.3570", "call me on 2024-05-01", "call me at 10:30",
    "my phone is a 15 Pro", "00:1B:44:11:3A:B7", "#ff8800", "discord 417389201937465344", "6 12 18 24 30 36 42 48",
    # words about secrets
    "I forgot my password", "my password is wrong", "the password is stored in the vault", "password: str",
    "password: Optional[str] = None", "The password is case-sensitive.",
    "two things about the password: length matters",
    "password = os.environ['DB_PASSWORD']", "password=self.password", "password: ${DB_PASSWORD}",
    "password: <password>",
    "password: ********", '"password": null', "password must have 8 characters", "reset your password: click here",
    "is my password expired?", "a secret: nobody knows it", "the token is valid", "max tokens: 4000", "token: 4000",
    "api_key: your-api-key-1", "key: value", "monkey: banana12345", "the key is under the mat",
    "the bearer of bad news",
    "bearer responsibilities", "the pin is bent", "PIN: see the letter", "pin 13 is ground", "GPIO pin: 12",
    "sk-learn and sk-image", "sk-a-very-long-css-class-name-here", "ghp_short", "xoxo, Ann", "AKIA is a prefix",
    "eyJust kidding.eyJust.", "asiatic and Asia", "SG.1.2", "hf_hub_download", "npm_config_registry",
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0B\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC" + " KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----",
    "starts with -----BEGIN RSA PRIVATE" + " KEY----- and so on",
    # at signs and links
    "@ann and @bob", "icon@2x.png", "git@github.com:ann/tea.git", "meet @ 10.30", "pip install tea@main", "node@18.2.1",
    "ann@localhost", "http://localhost:8080/a@b", "https://example.com/@ann", "file:///home/ann", "ratio 1://2",
]  # fmt: skip


@pytest.mark.parametrize(("marked", "kind"), FOUND)
def test_what_should_not_be_kept_is_found_and_nothing_else(marked, kind):
    text = marked.replace("⟦", "").replace("⟧", "")
    start, end = marked.index("⟦"), marked.index("⟧") - 1
    assert find(text, BOTH) == [Secret(kind, (start, end))]
    told, kinds = masked(text, BOTH)
    assert told == text[:start] + MASKS[kind] + text[end:]
    assert kinds == (kind,)


@pytest.mark.parametrize("text", NOT_FOUND)
def test_what_only_looks_sensitive_is_left_unchanged(text):
    assert masked(text, BOTH) == (text, ())


def test_the_table_is_large_and_half_of_it_must_not_be_found():
    assert len(FOUND) + len(NOT_FOUND) >= 120
    assert len(NOT_FOUND) >= len(FOUND)
    assert {kind for _, kind in FOUND} == set(KINDS)


# ── kinds ────────────────────────────────────────────────────────────────────────────────────────


def test_kinds_are_named_by_group_or_one_by_one():
    assert parsed("") == frozenset()
    assert parsed("secrets") == set(GROUPS["secrets"])
    assert parsed(" secrets , personal ") == set(KINDS)
    assert parsed("card,iban") == {"card", "iban"}
    with pytest.raises(ValueError, match="the kinds are secrets, personal, private_key"):
        parsed("secrets,names")


def test_only_the_requested_kinds_are_masked():
    text = "ann@example.com has the password hunter2, that is: password=hunter2"
    assert masked(text, frozenset()) == (text, ())
    assert masked(text, SECRETS)[0].endswith("password=[password]")
    assert masked(text, parsed("personal"))[0].startswith("[email] has the password hunter2")


def test_a_find_says_where_it_is_and_never_what_it_is():
    assert "hunter2" not in repr(find("password=hunter2", SECRETS))


def test_overlapping_finds_are_masked_as_one():
    assert masked(f"password={OPENAI}", BOTH) == ("password=[api key]", ("api_key",))
    assert masked("password: 4111 1111 1111 1111", BOTH) == ("password: [card]", ("card",))
    assert masked("id and secret: " + f"{AWS_ID} {AWS_SECRET}", BOTH)[0] == "id and secret: [api key] [api key]"


def test_several_finds_in_one_text_are_all_masked():
    text = f"I am ann@example.com, +49 30 901820, card 4111 1111 1111 1111, key {STRIPE}."
    told, kinds = masked(text, BOTH)
    assert told == "I am [email], [phone], card [card], key [api key]."
    assert sorted(kinds) == ["api_key", "card", "email", "phone"]


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────


def test_every_text_in_a_json_value_is_masked():
    parts = [
        {"type": "text", "text": "I am ann@example.com"},
        {"type": "image_url", "image_url": {"url": "https://ann:hunter2@example.com/cat.png"}},
        {"type": "number", "value": 4111111111111111, "other": 42, "flag": True, "none": None, "half": 0.5},
    ]
    value, kinds = masked_value(parts, BOTH)
    assert value == [
        {"type": "text", "text": "I am [email]"},
        {"type": "image_url", "image_url": {"url": "https://ann:[password]@example.com/cat.png"}},
        {"type": "number", "value": "[card]", "other": 42, "flag": True, "none": None, "half": 0.5},
    ]
    assert kinds == ("email", "password", "card")
    assert masked_value(value, BOTH) == (value, ())
    assert masked_value(parts, frozenset()) == (parts, ())


def test_a_value_under_the_name_of_a_secret_is_masked_whole():
    value = {
        "password": "correct horse",
        "api_key": "abc12345",
        "pin": 4711,
        "passwords": "two",
        "token": "kept",
        "pwd": "",
    }
    assert masked_value(value, SECRETS)[0] == {
        "password": "[password]", "api_key": "[api key]", "pin": "[password]", "passwords": "two", "token": "kept",
        "pwd": "",
    }  # fmt: skip


def test_the_arguments_of_a_tool_call_stay_json():
    arguments = json.dumps({"pin": 4711, "to": "ann@example.com", "card": 4111111111111111, "note": "tea"})
    calls = [{"id": "c1", "type": "function", "function": {"name": "pay", "arguments": arguments}}]
    told = masked_value(calls, BOTH)[0][0]["function"]
    assert told["name"] == "pay"
    expected = {"pin": "[password]", "to": "[email]", "card": "[card]", "note": "tea"}
    assert json.loads(told["arguments"]) == expected


@pytest.mark.parametrize(
    "broken",
    ['{"password": "hunter2"', '{"ann@example.com": 1}', "[" * 20_000 + "ann@example.com", "{ann@example.com}"],
)
def test_what_cannot_be_masked_as_json_is_masked_as_text(broken):
    told, kinds = masked_value(broken, BOTH)
    assert "hunter2" not in told
    assert "ann@" not in told
    assert len(kinds) == 1


# ── for any text ─────────────────────────────────────────────────────────────────────────────────

PIECES = st.sampled_from(
    [text.replace("⟦", "").replace("⟧", "") for text, _ in FOUND]
    + [text[text.index("⟦") + 1 : text.index("⟧")] for text, _ in FOUND]
    + [*NOT_FOUND, *MASKS.values(), " ", "", "-", ".", "@", "+", ":", "=", "is", "\n", '"', "password", "İ", "4", "a"]
)


@given(st.lists(PIECES, max_size=6).map("".join) | st.text())
def test_masking_twice_is_the_same_as_masking_once(text):
    told, _ = masked(text, BOTH)
    assert masked(told, BOTH) == (told, ())


@given(st.text(alphabet=st.characters(exclude_categories=("Nd", "Cs"), exclude_characters="@:=+")))
def test_a_text_without_digits_at_signs_and_assignments_hardly_ever_changes(text):
    if " is " not in text and "PRIVATE" not in text:
        assert masked(text, BOTH) == (text, ())


@given(st.lists(PIECES | st.text(max_size=8), max_size=6).map("".join))
def test_finds_are_in_order_disjoint_and_inside_the_text(text):
    ends = [0, *(end for secret in find(text, BOTH) for end in secret.span), len(text)]
    assert ends == sorted(ends)
    assert all(start < end for start, end in (secret.span for secret in find(text, BOTH)))


@given(st.integers(0, 10**13), st.sampled_from(["411111", "5105", "378282", "6011"]))
def test_of_ten_numbers_that_differ_in_the_last_digit_exactly_one_is_a_card(number, issuer):
    body = (issuer + str(number).zfill(14))[: 14 if issuer == "378282" else 15]
    assert sum(is_card(body + last) for last in "0123456789") == 1


@given(st.integers(0, 10**18 - 1), st.integers(1, 9), st.integers(4, 21))
def test_an_account_number_with_one_wrong_digit_is_not_valid(number, shift, place):
    body = str(number).zfill(18)
    account = next(f"DE{check:02}{body}" for check in range(2, 99) if is_iban(f"DE{check:02}{body}"))
    wrong = str((int(account[place]) + shift) % 10)
    assert not is_iban(account[:place] + wrong + account[place + 1 :])


# ── time ─────────────────────────────────────────────────────────────────────────────────────────

PROSE = ("We met in March, talked about the garden and took the train at 10:30 to Lisbon. " * 26)[:2048]
HOSTILE = ["a", "1", "1 ", "1-", "+1", "a@", "a.", "@a.", "password=", "password is a", "sk-", "sk-a1", "eyJ", "eyJa.",
           "AKIA", "akia0000000000000000 ", "A1", "DE89 ", "4111 ", "-----BEGIN PRIVATE" + " KEY-----", "://", "a://b:",
           "key: 'a", "bearer a1", "phone 1", "+1 (", "1.1.", "\\n", "[", '{"', "00", "ssn 1",
           "authorization: basic a1",
           "0049 1", "İ", "call me ", "é", "secret=>", "password=${A", "token=a&b",
           "[ip] pin=1234 ", "AKIAIOSFODNN7QUARTER "]  # fmt: skip


def best_ms(work, times=3):
    """The shortest of a few runs, counting only the CPU time of this process."""
    fastest = float("inf")
    for _ in range(times):
        begun = time.process_time()
        work()
        fastest = min(fastest, time.process_time() - begun)
    return fastest * 1000


def test_scanning_two_kibibytes_without_a_find_takes_under_a_tenth_of_a_millisecond():
    assert find(PROSE, BOTH) == []
    assert best_ms(lambda: find(PROSE, BOTH), 50) < 0.2, "twice the promise, for a slow machine"


@pytest.mark.parametrize("piece", HOSTILE)
def test_time_is_linear_in_the_length_of_any_text(piece):
    whole, quarter = (piece * 65_536)[:65_536], (piece * 16_384)[:16_384]
    assert best_ms(lambda: masked(whole, BOTH)) < 8 * best_ms(lambda: masked(quarter, BOTH)) + 10
    assert best_ms(lambda: masked(whole, BOTH)) < 250
