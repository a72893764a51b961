"""Secret labels: known answers, nobody twice, a key for each order, and nothing that shows it."""

import hashlib
import io
import logging
import pickle
import struct

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats
from sources import Seeded

from pellucid.mechanisms import labels as secret
from pellucid.mechanisms import source
from pellucid.mechanisms.labels import Labels, in_payload

KEY = bytes(range(32))


def one(key, about, number):
    """A label by a single call of the library."""
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return struct.unpack("<QQ", cipher.update(struct.pack("<QQ", about, number)) + cipher.finalize())


def test_the_cipher_is_aes():
    """The known answer of FIPS 197, appendix C.3."""
    cipher = secret._cipher(KEY)
    assert cipher.update(bytes.fromhex("00112233445566778899aabbccddeeff")).hex() == "8ea2b7ca516745bfeafc49904b496089"


def test_rows_are_single_blocks():
    labels = Labels(KEY)
    assert [tuple(map(int, label)) for label in labels.of_rows(5, 40)] == [one(KEY, 0, n) for n in range(5, 40)]
    far = np.array([2**63, 3, 2**64 - 1], dtype=np.uint64)
    assert [tuple(map(int, label)) for label in labels.of_row_numbers(far)] == [one(KEY, 0, int(n)) for n in far]
    assert labels.of_rows(7, 7).shape == (0, 2)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64])
def test_whole_numbers_of_every_width(kind):
    numbers = [0, 1, 7, np.iinfo(kind).max, np.iinfo(kind).min]
    found = [tuple(map(int, label)) for label in Labels(KEY).of_numbers(np.array(numbers, dtype=kind))]
    assert found == [one(KEY, 2 if n < 0 else 1, int(n) % 2**64) for n in numbers]


def test_bytes_are_hashed_with_a_key_of_their_own():
    own = b"".join(struct.pack("<QQ", *one(KEY, 3, n)) for n in range(4))
    cells = [b"", b"a", b"\xff" * 300, "Ö".encode()]
    wanted = [struct.unpack("<QQ", hashlib.blake2b(cell, key=own, digest_size=16).digest()) for cell in cells]
    assert [tuple(map(int, label)) for label in Labels(KEY).of_bytes(cells)] == wanted
    assert Labels(KEY).of_bytes([]).shape == (0, 2)


def test_nobody_has_the_label_of_another():
    labels = Labels(KEY)
    numbers = np.arange(-50_000, 50_000)
    every = np.concatenate([labels.of_rows(0, 100_000), labels.of_numbers(numbers)])
    assert len(np.unique(every, axis=0)) == 200_000


def test_labels_are_uniform_and_rows_in_every_order():
    for half in Labels(KEY).of_rows(0, 200_000).T:
        assert stats.kstest(half / 2**64, "uniform").pvalue > 1e-4
        for bit in range(64):
            ones = int(((half >> np.uint64(bit)) & np.uint64(1)).sum())
            assert stats.binomtest(ones, 200_000).pvalue > 1e-6
    orders = [tuple(np.argsort(Labels(struct.pack("<QQQQ", i, 0, 0, 0)).of_rows(0, 4)[:, 0])) for i in range(4800)]
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 24 and stats.chisquare(counts).pvalue > 1e-4


def test_each_order_has_a_key_of_its_own_from_the_source(monkeypatch):
    monkeypatch.setattr(source, "current", Seeded(3))
    first, second = secret.fresh(), secret.fresh()
    assert (first.of_rows(0, 9) != second.of_rows(0, 9)).any()
    drawn = Seeded(3)
    assert (Labels(drawn.bits(32)).of_rows(0, 9) == first.of_rows(0, 9)).all()
    with pytest.raises(AssertionError):
        Labels(b"short")


def test_a_changed_bit_of_the_key_changes_half_of_the_bits():
    other = bytes([KEY[0] ^ 1, *KEY[1:]])
    different = Labels(KEY).of_rows(0, 2000) ^ Labels(other).of_rows(0, 2000)
    ones = int(np.unpackbits(different.view(np.uint8)).sum())
    assert stats.binomtest(ones, 2000 * 128).pvalue > 1e-6


def test_nothing_shows_the_key():
    labels = Labels(KEY)
    for shown in (repr(labels), str(labels), f"{labels}"):
        assert shown == "Labels()"
    written = io.StringIO()
    log = logging.Logger("test")
    log.addHandler(logging.StreamHandler(written))
    log.error("%r %s", labels, labels)
    assert "Labels() Labels()" in written.getvalue()
    assert not hasattr(labels, "__dict__") and not hasattr(labels, "key")


def test_labels_travel_in_payloads_alone():
    labels = Labels(KEY)
    with pytest.raises(TypeError, match="inside the payload"):
        pickle.dumps(labels)
    with in_payload():
        sent = pickle.dumps(labels)
    assert (pickle.loads(sent).of_rows(0, 5) == labels.of_rows(0, 5)).all()
    with pytest.raises(TypeError):
        pickle.dumps([labels])
