"""ferro.examples.digits: its split, a short training, its picture, and what it says when a package is missing."""

import sys

import numpy as np
import pytest

import ferro
from ferro.examples import digits, optional

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")


@pytest.fixture(autouse=True)
def same_threads_afterwards():
    threads = ferro.get_num_threads()
    yield
    ferro.set_num_threads(threads)


def test_split_is_fixed_stratified_and_disjoint():
    (train_images, train_labels), (test_images, test_labels) = digits.load_digits()
    assert train_images.shape == (1347, 1, 8, 8)
    assert test_images.shape == (450, 1, 8, 8)
    share = np.bincount(test_labels) / np.bincount(np.concatenate([train_labels, test_labels]))
    np.testing.assert_allclose(share, 450 / 1797, atol=0.01)
    # No two of the 1,797 images are equal, so a test image in the training set would be seen.
    assert len(np.unique(np.concatenate([train_images, test_images]).reshape(1797, -1), axis=0)) == 1797
    again = digits.load_digits()[1]
    np.testing.assert_array_equal(again[0], test_images)
    np.testing.assert_array_equal(again[1], test_labels)


def test_three_epochs_give_ninety_percent_and_a_picture(tmp_path, capsys):
    result = digits.main(["--epochs", "3", "--seed", "1", "--threads", "2", "--output", str(tmp_path / "digits.png")])
    assert result["accuracy"] > 0.9
    assert len(result["losses"]) == 3 * 22
    assert len(result["test_losses"]) == 3
    assert result["test_losses"][-1] < result["test_losses"][0]
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG\r\n")
    printed = capsys.readouterr().out
    assert f"test accuracy {result['accuracy']:.2%}" in printed
    assert "worst classes" in printed


def test_same_seed_gives_the_same_losses(monkeypatch):
    monkeypatch.setattr(digits, "draw", lambda *arguments: None)
    first, second, other = (digits.main(["--epochs", "1", "--seed", seed])["losses"] for seed in ("3", "3", "4"))
    assert first == second
    assert first != other


def test_worst_classes_are_told_with_what_they_were_taken_for():
    counts = np.diag(np.full(10, 9))
    assert digits.worst_classes(counts) == ["  none: every test image was classified correctly"]
    counts[3, 3], counts[3, 5], counts[3, 8] = 6, 2, 1
    assert digits.worst_classes(counts) == ["  3: 6 of 9 right; taken for 5 (2 times), 8 (once)"]


@pytest.mark.parametrize(("module", "package"), [("sklearn.datasets", "scikit-learn"), ("tqdm", "tqdm")])
def test_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit, match=rf'needs {package}.*pip install "ferro\[demo\]"'):
        optional(module)
