import jax.numpy as jnp
import numpy as np
import pytest
from use_checks import check_use

from ebmjax.data import load_digits


@pytest.mark.slow
def test_a_trained_latent_model_is_used(smoke, monkeypatch, tmp_path):
    images = load_digits("test").images[:3]
    used = check_use(smoke, monkeypatch, tmp_path, images, ["log_evidence"])
    assert used.apply(used.params, jnp.zeros((2, 16))).shape == (2, 8, 8, 1)
    assert np.isfinite(used.score(images)["log_evidence"]).all()
