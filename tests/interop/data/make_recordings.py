"""Makes the ``.pt`` files beside it with a real torch; see README.md."""

from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]

HERE = Path(__file__).parent
SLOTS = torch.tensor([[0, 1, 2, 3, 0, 2], [3, 2, 1, 0, 0, 3], [0, 1, 2, 3, 1, 1]])
"""4 experts in 6 slots, 3 layers."""


def record(number: int, rank: int, mode: int, tokens: list[int], seed: int) -> dict[str, Any]:
    draw = torch.Generator().manual_seed(seed)
    width = len(tokens)
    ids = torch.full((3, width, 8), -1, dtype=torch.int32)
    counts = torch.zeros((3, 6), dtype=torch.int32)
    for layer in (1, 2):  # layer 0 is dense
        for token in range(width):
            ids[layer, token, :2] = torch.randperm(4, generator=draw)[:2].to(torch.int32)
        counts[layer] = torch.bincount(ids[layer, :, :2].flatten().long(), minlength=6)
    return {
        "forward_pass_id": number,
        "rank": rank,
        "gatherer_key": "primary",
        "global_physical_count": counts,
        "input_ids": tokens,
        "positions": list(range(width)) if mode != 2 else [7] * width,
        "extend_seq_lens": [width - 1, 1] if mode == 3 else None,
        "forward_mode": mode,
        "topk_ids_of_layer": ids,
        "misc_objects": [],
    }


def main() -> None:
    stat = torch.zeros((2, 3, 4), dtype=torch.int32)
    stat[:, 1:] = torch.arange(16, dtype=torch.int32).reshape(2, 2, 4)
    torch.save(
        {"rank": 0, "logical_count": stat, "average_utilization_rate_over_window": {10: 0.5}},
        HERE / "stat.pt",
    )
    (HERE / "per_token").mkdir(exist_ok=True)
    for rank in (0, 1):
        records = [
            record(0, rank, 1, [11, 12, 13], 10 + rank),
            record(1, rank, 2, [14, 15], 20 + rank),
            record(2, rank, 4, [], 30 + rank),
        ]
        torch.save(
            {"records": records, "last_physical_to_logical_map": SLOTS},
            HERE / "per_token" / f"recording_{rank}.pt",
        )
    mixed = [record(5, 0, 3, [21, 22, 23, 24], 40)]
    mixed[0]["positions"] = [0, 1, 2, 9]
    torch.save({"records": mixed, "last_physical_to_logical_map": SLOTS}, HERE / "mixed.pt")
    whole = torch.arange(12)
    torch.save(
        {
            "float64": torch.tensor([1.5, -2.25], dtype=torch.float64),
            "float32": torch.tensor([1.5, -2.25]),
            "float16": torch.tensor([1.5, -2.25], dtype=torch.float16),
            "bfloat16": torch.tensor([1.5, -2.25], dtype=torch.bfloat16),
            "int64": torch.tensor([2**40, -3]),
            "int16": torch.tensor([300, -3], dtype=torch.int16),
            "int8": torch.tensor([100, -3], dtype=torch.int8),
            "uint8": torch.tensor([200, 3], dtype=torch.uint8),
            "bool": torch.tensor([True, False]),
            "transposed": whole.reshape(3, 4).T,
            "sliced": whole[2:9:3],
            "scalar": torch.tensor(7),
            "none": torch.empty((0, 3)),
            "plain": [1, -2, 2**70, 0.5, True, None, "text", (1, 2), {"a": []}],
        },
        HERE / "kinds.pt",
    )


if __name__ == "__main__":
    main()
