"""ferro.examples.chargpt: a short training lowers the loss, the network is causal, and the sample has its length."""

import numpy as np
import pytest

import ferro
from ferro.examples import chargpt
from ferro.native import arena

pytest.importorskip("tqdm")


@pytest.fixture(autouse=True)
def same_threads_afterwards():
    threads = ferro.get_num_threads()
    yield
    ferro.set_num_threads(threads)


def test_thirty_steps_lower_the_loss_and_text_is_written(capsys):
    result = chargpt.main(["--steps", "30", "--sample", "20", "--threads", "2"])
    losses = result["losses"]
    assert len(losses) == 30
    # It begins with what an even guess costs, and single letters' frequencies, about 3.1 nats, are learnt by then.
    letters = len(set(chargpt.corpus()))
    assert losses[0] == pytest.approx(np.log(letters), abs=0.2)
    assert np.mean(losses[-5:]) < 3.5
    assert len(result["sample"]) == 21
    assert "nats per character" in capsys.readouterr().out


def test_compiled_steps_give_the_same_losses_and_a_map(capsys, tmp_path):
    page = tmp_path / "map.html"
    small = ["--steps", "8", "--sample", "0", "--threads", "2"]
    compiled = chargpt.main([*small, "--compile", str(page)])
    said = capsys.readouterr().out
    assert compiled["losses"] == chargpt.main(small)["losses"]
    assert "1 captures" in said
    assert "6 calls replayed" in said
    if not arena.refusal():
        assert "memory: <Plan" in said
        assert "chargpt.py" in page.read_text("utf-8")


def test_scores_do_not_depend_on_later_characters():
    ferro.manual_seed(0)
    size = chargpt.Size(vocabulary=11, context=8, width=16, heads=2, blocks=2)
    model = chargpt.CharGPT(size).eval()
    text = np.random.default_rng(0).integers(0, 11, (2, 8))
    changed = text.copy()
    changed[:, 5:] = (changed[:, 5:] + 1) % 11
    with ferro.no_grad():
        before, after = model(ferro.tensor(text)).numpy(), model(ferro.tensor(changed)).numpy()
    np.testing.assert_allclose(after[:, :5], before[:, :5], rtol=1e-5, atol=1e-6)
    assert np.abs(after[:, 5:] - before[:, 5:]).max() > 1e-3


def test_first_below_counts_the_steps_of_a_whole_window():
    assert chargpt.first_below([3.0] * 10 + [1.0] * 10, 2.0) == 16
    assert chargpt.first_below([3.0] * 20, 2.0) is None
