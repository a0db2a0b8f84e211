"""Recording a routing trace from a Hugging Face MoE model, in a local folder, while it runs.

Needs the extra ``hf`` (torch and transformers), imported where it is used. Nothing is downloaded.
Hooks are put on the routers, so the model runs as it is; known styles are the routers of Mixtral,
Qwen2/3-MoE, DeepSeek V2/V3, OLMoE, Phi-MoE and their relatives: whatever module called ``gate`` or
``router`` stands beside ``experts`` and returns chosen experts, or plain logits as in older
releases.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.json_files import parse, read_object
from moeopt.core.wording import shown
from moeopt.sim.traces.trace import Trace

from .checked import layer_facts, read_lines, smallest

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


NAMES = ("gate", "router")
"""What a router is called in the block that it shares with the experts."""

_LAYER = re.compile(r"\.?layers\.([0-9]+)\.")

Module = Any
"""PyTorch's ``nn.Module``; PyTorch is not imported here."""

Tensor = Any
"""Its tensors, and what else modules are handed and return."""


def routers_of(model: Module) -> dict[int, tuple[Tensor, Tensor]]:
    """Return, for each layer with experts, its router and the block that owns it."""
    found: dict[int, tuple[Tensor, Tensor]] = {}
    for path, block in model.named_modules():
        number = _LAYER.search(f"{path}.")
        if number is None or not hasattr(block, "experts"):
            continue
        for name in NAMES:
            router = getattr(block, name, None)
            if hasattr(router, "register_forward_hook"):
                found[int(number.group(1))] = (router, block)
                break
    return dict(sorted(found.items()))


def chosen(
    output: Tensor, router: Module, owner: Module
) -> tuple[NDArray[np.int64], NDArray[np.generic]]:
    """Return experts and gate weights, both of shape (tokens, k), from what a router returned.

    Routers return a tuple that has the experts as its only integers, and weights of the same shape;
    those of older releases return the logits, from which the block takes the top-k of the softmax.

    Raises
    ------
    InputError
        If the output is neither.
    """
    import torch  # type: ignore[import-not-found, unused-ignore]  # extra "hf"

    parts = output if isinstance(output, tuple | list) else (output,)
    tensors = [part for part in parts if isinstance(part, torch.Tensor)]
    whole = [tensor for tensor in tensors if tensor.dtype in (torch.int32, torch.int64)]
    if len(whole) == 1:
        ids = whole[0]
        same = [t for t in tensors if t.is_floating_point() and t.shape == ids.shape]
        weights = same[-1] if same else None
    elif len(tensors) == 1 and tensors[0].is_floating_point():
        ids, weights = _top_k(tensors[0], router, owner)
    else:
        raise InputError(f"{type(router).__name__}: a router of a style that is not known")
    width = ids.shape[-1]
    if weights is None:
        raise InputError(f"{type(router).__name__}: returns no weights of the experts' shape")
    return (
        ids.reshape(-1, width).detach().cpu().numpy().astype(np.int64),
        weights.reshape(-1, width).detach().float().cpu().numpy(),
    )


def _top_k(logits: Tensor, router: Module, owner: Module) -> tuple[Tensor, Tensor]:
    width = getattr(router, "top_k", None) or getattr(owner, "top_k", None)
    if not isinstance(width, int) or not 1 <= width <= logits.shape[-1]:
        raise InputError(f"{type(owner).__name__}: does not say how many experts a token gets")
    scores = logits.float().softmax(dim=-1)
    weights, ids = scores.topk(width, dim=-1)
    if getattr(owner, "norm_topk_prob", True):
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return ids, weights


class Recorder:
    """What was recorded so far; made by `recording`.

    A forward pass over an empty cache begins new sequences, one per row of its input; later passes
    go on with them, as `generate` does. Tokens that the attention mask hides are left out. A
    row that has ended goes on being recorded while others in its batch are generated, with the
    padding that the model is fed; `record` runs sequences one by one and knows nothing of it.
    Without a cache, every pass is taken for new sequences.
    """

    def __init__(self, model: Module) -> None:
        self.model = model
        self.routers = routers_of(model)
        if not self.routers:
            raise InputError(f"{type(model).__name__}: has no routers that are known")
        self._sequences: list[list[list[Tensor]]] = []
        self._weights: list[list[list[Tensor]]] = []
        self._marks: list[list[bool]] = []
        self._batch: list[int] = []
        self._pass: dict[int, tuple[Tensor, Tensor]] = {}
        self._shape: tuple[int, int] = (0, 0)
        self._shown: Tensor = None
        self._decoding = False

    def trace(self, name: str, facts: dict[str, object] | None = None) -> Trace:
        """Return the recorded sequences, one after the other.

        Raises
        ------
        InputError
            If nothing was recorded.
        """
        kept = [number for number, sequence in enumerate(self._sequences) if sequence]
        if not kept:
            raise InputError(f"{name}: no tokens were recorded")
        ids, weights = (
            np.array([token for number in kept for token in table[number]])
            for table in (self._sequences, self._weights)
        )
        known = {"model": type(self.model).__name__} | layer_facts(sorted(self.routers))
        return Trace(
            name,
            smallest(ids),
            weights.astype(np.float32),
            np.array([len(self._sequences[number]) for number in kept]),
            known | (facts or {}),
            np.array([mark for number in kept for mark in self._marks[number]], dtype=bool),
        )

    def begin(self, module: Module, args: tuple[Tensor, ...], kwargs: dict[str, Tensor]) -> None:
        """Note the shape of a pass before it runs (a forward pre-hook of the model)."""
        tokens = kwargs.get("input_ids", args[0] if args else None)
        if tokens is None:
            tokens = kwargs.get("inputs_embeds")
        if tokens is None:
            raise InputError("input_ids: the recorder cannot see what the model is given")
        rows, width = int(tokens.shape[0]), int(tokens.shape[1])
        cache = kwargs.get("past_key_values")
        seen = 0 if cache is None else int(cache.get_seq_length())
        if seen == 0 or rows != len(self._batch):
            start = len(self._sequences)
            self._batch = list(range(start, start + rows))
            for table in (self._sequences, self._weights, self._marks):
                table.extend([] for _ in range(rows))
        self._decoding = seen > 0 and width == 1
        self._shape, self._pass = (rows, width), {}
        mask = kwargs.get("attention_mask")
        if mask is None or getattr(mask, "ndim", 0) != 2:
            self._shown = None
        else:
            self._shown = mask[:, -width:].bool().cpu().numpy()

    def hear(self, layer: int, router: Module, owner: Module) -> Callable[..., None]:
        """Return the forward hook of one layer's router."""

        def hook(module: Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            self._pass[layer] = chosen(output, router, owner)

        return hook

    def end(self, *_: Tensor) -> None:
        """Take over what the routers said in a pass (a forward hook of the model)."""
        rows, width = self._shape
        silent = sorted(set(self.routers) - set(self._pass))
        if silent:
            raise InputError(f"layer {silent[0]}: its router was not heard in a forward pass")
        stacked = [
            np.stack([self._pass[layer][part] for layer in sorted(self._pass)], axis=1)
            for part in (0, 1)
        ]
        if len(stacked[0]) != rows * width:
            raise InputError(f"routers saw {len(stacked[0])} tokens of {rows} x {width}")
        for row, number in enumerate(self._batch):
            for column in range(width):
                if self._shown is None or self._shown[row, column]:
                    place = row * width + column
                    self._sequences[number].append(stacked[0][place])
                    self._weights[number].append(stacked[1][place])
                    self._marks[number].append(self._decoding)


@contextmanager
def recording(model: Module) -> Iterator[Recorder]:
    """Record every forward pass of `model` inside the block; the hooks go away after it.

    Raises
    ------
    InputError
        If the model has no routers, or they are of no known style.
    """
    recorder = Recorder(model)
    hooks = [model.register_forward_pre_hook(recorder.begin, with_kwargs=True)]
    try:
        for layer, (router, owner) in recorder.routers.items():
            hooks.append(router.register_forward_hook(recorder.hear(layer, router, owner)))
        hooks.append(model.register_forward_hook(recorder.end))
        yield recorder
    finally:
        for hook in hooks:
            hook.remove()


def record(
    model: Module,
    prompts: Iterable[Sequence[int]],
    max_new_tokens: int,
    name: str,
    facts: dict[str, object] | None = None,
) -> Trace:
    """Let a model answer prompts, one by one and greedily, and return how it routed the tokens.

    Parameters
    ----------
    model
        A Hugging Face model for causal language modelling, with experts.
    prompts
        Token ids of each prompt, at least one each.
    max_new_tokens
        Tokens generated per prompt at most; 0 records the prompts only. The last generated token
        is never fed to the model, so it is not in the trace.
    name, facts
        As in `Trace`.

    Raises
    ------
    InputError
        If there are no prompts or the model cannot be recorded.
    """
    import torch  # type: ignore[import-not-found, unused-ignore]  # extra "hf"

    settings = {"max_new_tokens": max_new_tokens, "decoding": "greedy"}
    with recording(model) as recorder, torch.inference_mode():
        for number, prompt in enumerate(prompts):
            if not len(prompt):
                raise InputError(f"{name}: prompt {number}: is empty")
            tokens = torch.tensor([list(prompt)], device=model.device)
            seen = torch.ones_like(tokens)
            if max_new_tokens == 0:
                model(input_ids=tokens, attention_mask=seen)
                continue
            model.generate(
                input_ids=tokens,
                attention_mask=seen,
                max_new_tokens=max_new_tokens,
                do_sample=False,
                pad_token_id=0,
            )
    return recorder.trace(name, settings | (facts or {}))
