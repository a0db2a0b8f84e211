"""Types of a KV cache: what runtimes call them, and the bits of a number, scales included."""

from moeopt.core.errors import InputError

KvType = str
"""A name of `KV_TYPES`, of `OF_IK` or of `OF_SGLANG`."""

CACHE_TYPES = {"f32": 32.0, "f16": 16.0, "q8_0": 8.5, "q5_1": 6.0, "q5_0": 5.5} | {
    **{"q4_1": 5.0, "q4_0": 4.5}
}
"""Types that a width alone asks for, by the names of ``-ctk`` and ``-ctv``."""

KV_TYPES = CACHE_TYPES | {"bf16": 16.0, "iq4_nl": 4.5}
"""Types of ``-ctk`` and ``-ctv``."""

OF_IK = {"q6_0": 6.5}
"""Further ones of ik_llama.cpp."""

OF_SGLANG = {"fp8": 8.0}
"""Further ones of ktransformers, which has no scales."""

PLAIN_WIDTHS = {8.0: 8.5, 4.0: 4.5}
"""What people call the widths of q8_0 and q4_0."""


def kv_width(name: KvType) -> float:
    """Return the bits of a number of a type of cache."""
    return (KV_TYPES | OF_IK | OF_SGLANG)[name]


def kv_type_of(text: str | float, runtime: str = "llama.cpp") -> KvType:
    """Return the type of a runtime's cache that a width or a name asks for.

    Raises
    ------
    InputError
        If it is neither, or the runtime has none of that width.
    """
    bits, known = kv_bits_of(text), CACHE_TYPES
    if runtime == "ktransformers":
        known = OF_SGLANG | CACHE_TYPES
    else:
        bits = PLAIN_WIDTHS.get(bits, bits)
    for name, width in known.items():
        if abs(width - bits) < 0.01:
            return name
    said = ", ".join(f"{width:g} ({name})" for name, width in known.items())
    family = runtime if runtime == "ktransformers" else "llama.cpp"
    raise InputError(f"kv_bits: {family} has caches of {said} bits, not {bits:g}")


def kv_pair(text: str | float | None, runtime: str) -> tuple[KvType, KvType] | None:
    """Return the types of keys and values that one width or name asks for; None for none."""
    if text is None:
        return None
    kind = kv_type_of(text, runtime)
    return kind, kind


def kv_bits_of(text: str | float) -> float:
    """Return the bits of a number in a KV cache from a width or a name such as q8_0.

    Raises
    ------
    InputError
        If it is neither.
    """
    if isinstance(text, str) and text.strip().lower() in (*CACHE_TYPES, "bf16", "fp16", "fp8"):
        name = text.strip().lower()
        return {"bf16": 16.0, "fp16": 16.0, "fp8": 8.0}.get(name) or CACHE_TYPES[name]
    try:
        width = float(text)
    except (TypeError, ValueError):
        known = ", ".join(CACHE_TYPES)
        raise InputError(f"kv_bits: must be a width or one of {known}, not {text!r:.40}") from None
    if not 0.5 <= width <= 64:
        raise InputError(f"kv_bits: must be from 0.5 to 64, not {width:g}")
    return width
