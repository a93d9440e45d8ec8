import argon2
import pytest

from queue_core import passwords
from queue_core.errors import OperatorRefusedError

GOOD = "correct horse battery"


def test_a_password_matches_only_its_own_hash():
    stored = passwords.hashed(GOOD)

    assert passwords.matches(stored, GOOD)
    assert not passwords.matches(stored, GOOD + "x")
    assert not passwords.matches(None, GOOD)
    assert GOOD not in stored


@pytest.mark.parametrize(
    "password", ["", "too short", "x" * 201, "tab\there now", "nul\0 inside it"]
)
def test_an_unfit_password_is_refused_without_being_repeated(password):
    with pytest.raises(OperatorRefusedError, match="10 to 200 characters") as refused:
        passwords.hashed(password)

    assert password == "" or password not in str(refused.value)


def test_half_a_surrogate_pair_is_no_password():
    with pytest.raises(OperatorRefusedError):
        passwords.hashed("x" * 12 + "\ud800")


@pytest.mark.parametrize("password", ["x" * 10, "x" * 200, "pässwörd 密码密码", "          "])
def test_ten_to_two_hundred_characters_of_any_script_will_do(password):
    assert passwords.matches(passwords.hashed(password), password)


def test_one_password_typed_on_two_keyboards_is_the_same():
    assert passwords.matches(passwords.hashed("cafe\u0301 au lait"), "caf\u00e9 au lait")


@pytest.mark.parametrize("hostile", ["", "\ud800" * 10, "\0" * 20, "x" * 5_000_000])
def test_what_no_password_can_be_matches_nothing(hostile):
    assert not passwords.matches(passwords.hashed(GOOD), hostile)
    assert not passwords.matches(None, hostile)


def test_a_hash_that_is_none_matches_nothing():
    assert not passwords.matches("not a hash", GOOD)


def test_every_comparison_costs_one_hash(monkeypatch):
    verified: list[str] = []
    hasher = passwords._HASHER

    class Counting:
        def verify(self, stored, password):
            verified.append(stored)
            return hasher.verify(stored, password)

        def __getattr__(self, name):
            return getattr(hasher, name)

    passwords._nobodys.cache_clear()
    monkeypatch.setattr(passwords, "_HASHER", Counting())
    passwords.matches(None, GOOD)
    passwords.matches(passwords.hashed(GOOD), "wrong horse battery")
    passwords.matches(passwords.hashed(GOOD), "short")

    settings = {repr(argon2.extract_parameters(stored)) for stored in verified}
    assert len(verified) == 3
    assert len(settings) == 1


def test_the_hash_has_the_settings_that_were_measured():
    settings = argon2.extract_parameters(passwords.hashed(GOOD))

    assert settings.type is argon2.Type.ID
    assert (settings.time_cost, settings.memory_cost, settings.parallelism) == (2, 19_456, 1)


def test_a_hash_made_with_other_settings_is_outdated():
    weaker = argon2.PasswordHasher(time_cost=1, memory_cost=1_024, parallelism=1)

    assert passwords.is_outdated(weaker.hash(GOOD))
    assert not passwords.is_outdated(passwords.hashed(GOOD))


def test_random_passwords_differ_are_readable_and_good_enough():
    made = {passwords.random_password() for _ in range(200)}

    assert len(made) == 200
    for password in made:
        groups = password.split("-")
        assert [len(group) for group in groups] == [5, 5, 5, 5]
        assert not set(password) & set("il1o0")
    assert len(set("".join(made)) - {"-"}) ** 20 >= 2**90
    assert passwords.matches(passwords.hashed(min(made)), min(made))
