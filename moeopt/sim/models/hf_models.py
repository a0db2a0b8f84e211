"""Loading a Hugging Face model from a local folder, and prompts for it; nothing is downloaded."""

import json
from pathlib import Path

from moeopt.core.errors import InputError
from moeopt.core.json_files import parse, read_object
from moeopt.core.wording import shown
from moeopt.sim.traces.readers.checked import read_lines

Prompt = str | list[int]
"""A text, or the token ids themselves."""


def read_prompts(path: Path, most: int) -> list[Prompt]:
    """Read prompts, one per line: texts, or lists of token ids if the name ends in ``.jsonl``.

    Raises
    ------
    InputError
        If there is none, there are more than `most`, or a line is no list of token ids.
    """
    prompts: list[Prompt] = []
    for number, line in read_lines(path):
        where = f"{path}: line {number}"
        prompts.append(_token_ids(line, where) if path.suffix == ".jsonl" else line)
        if len(prompts) > most:
            raise InputError(f"{path}: holds more than {most} prompts")
    if not prompts:
        raise InputError(f"{path}: holds no prompts")
    return prompts


def load_model(
    path: Path, prompts: list[Prompt], random_weights: bool, seed: int
) -> tuple[object, list[list[int]]]:
    """Return a model ready to run, and the prompts as token ids that it knows.

    Parameters
    ----------
    path
        Folder of a model, or its ``config.json``.
    random_weights
        Make a model of that shape with weights drawn with `seed`, instead of reading weights.

    Raises
    ------
    InputError
        If the model or its tokenizer cannot be loaded from there.
    """
    import torch  # type: ignore[import-not-found, unused-ignore]  # extra "hf"
    import transformers  # type: ignore[import-not-found, unused-ignore]  # extra "hf"

    folder, config_file = (path, path / "config.json") if path.is_dir() else (path.parent, path)
    kind = read_object(config_file).get("model_type")
    if not isinstance(kind, str):
        raise InputError(f"{config_file}: model_type: must be a string, not {shown(kind)}")
    if not random_weights and not path.is_dir():
        raise InputError(f"{path}: must be a model's folder; a config alone needs --random-weights")
    try:
        config = transformers.AutoConfig.from_pretrained(config_file, local_files_only=True)
        if random_weights:
            torch.manual_seed(seed)
            model = transformers.AutoModelForCausalLM.from_config(config)
        else:
            model = transformers.AutoModelForCausalLM.from_pretrained(
                folder, local_files_only=True, dtype="auto"
            )
    except Exception as error:  # transformers raises a dozen kinds
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"{path}: cannot be loaded: {reason}") from None
    tokens = _tokenized(folder, prompts)
    highest = max(max(row, default=0) for row in tokens)
    if highest >= config.vocab_size:
        raise InputError(f"prompts: token {highest} in a vocabulary of {config.vocab_size}")
    return model.eval(), tokens


def _tokenized(folder: Path, prompts: list[Prompt]) -> list[list[int]]:
    if all(isinstance(prompt, list) for prompt in prompts):
        return [prompt for prompt in prompts if isinstance(prompt, list)]
    import transformers

    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception:  # transformers raises a dozen kinds
        reason = "has no tokenizer: give token ids in a .jsonl file, one list per line"
        raise InputError(f"{folder}: {reason}") from None
    return [tokenizer(prompt)["input_ids"] for prompt in prompts]


def _token_ids(line: str, where: str) -> list[int]:
    ids = parse(line, where)
    if not isinstance(ids, list) or not ids or not all(type(i) is int and i >= 0 for i in ids):
        raise InputError(f"{where}: must be a list of token ids, not {shown(json.dumps(ids))}")
    return ids
