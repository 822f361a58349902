import pytest

from steelyard.models import ChatRenderer, Message

SYSTEM = Message(role="system", content="Be brief.")
QUESTION = Message(role="user", content="What is 2 + 2?")
RESULT = Message(role="tool", content="4")


@pytest.fixture(scope="module")
def tokenizer(smollm2):
    return smollm2.tokenizer


def with_template(tokenizer, template):
    import copy

    changed = copy.deepcopy(tokenizer)
    changed.chat_template = template
    return changed


def test_growing_a_segment_equals_rendering_the_whole_conversation(tokenizer):
    renderer = ChatRenderer(tokenizer)
    answer = tokenizer("four", add_special_tokens=False).input_ids
    grown = [*renderer.prompt([SYSTEM, QUESTION]), *answer, 2]
    grown += renderer.continuation([SYSTEM, QUESTION], "four", 2, [RESULT])
    whole = renderer.prompt([SYSTEM, QUESTION, Message(role="assistant", content="four"), RESULT])
    assert grown == whole


@pytest.mark.parametrize("answer", ["", " ", "a\n", "\n\n  x", "<|im_start|>", "ünï\ufffd"])
def test_odd_answers_still_continue(tokenizer, answer):
    renderer = ChatRenderer(tokenizer)
    ids = renderer.continuation([QUESTION], answer, 2, [RESULT])
    assert renderer.decode(ids) == "\n<|im_start|>tool\n4<|im_end|>\n<|im_start|>assistant\n"


def test_a_template_that_rewrites_history_is_noticed(tokenizer):
    """Like templates that drop earlier reasoning once the next user message comes."""
    forgetful = with_template(
        tokenizer,
        "{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{% if m.role == 'assistant' and not loop.last %}...{% else %}{{ m.content }}{% endif %}"
        "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    )
    assert ChatRenderer(forgetful).continuation([QUESTION], "thinking", 2, [RESULT]) is None


def test_roles_that_a_template_refuses_are_folded_into_user_messages(tokenizer):
    strict = with_template(
        tokenizer,
        "{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}"
        "{{ raise_exception('role') }}{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}",
    )
    text = ChatRenderer(strict).decode(ChatRenderer(strict).prompt([SYSTEM, QUESTION, RESULT]))
    assert text == "[user]Be brief.\n\nWhat is 2 + 2?[user]4"


def test_a_tokenizer_without_a_template_gets_a_plain_one(tokenizer):
    plain = ChatRenderer(with_template(tokenizer, None))
    assert plain.decode(plain.prompt([QUESTION])) == "### user\nWhat is 2 + 2?\n### assistant\n"
    assert plain.continuation([QUESTION], "four", 2, [RESULT]) is not None
