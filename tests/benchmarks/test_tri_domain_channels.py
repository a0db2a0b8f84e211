"""The study of channels, shares, base load and overlap: what stored optima overload."""

from benchmarks.studies import tri_domain_channels as study


def test_stored_optima_overload_channels_and_the_gpu() -> None:
    """Optima of schema 1 do not keep rows that schema 1 lacks, but most do."""
    for what in ("channel", "across", "base"):
        over = study._overloads(what, fair=False)
        assert len(over) == 84
        assert 0 < sum(ratio > 1 for ratio in over) < len(over) / 4
        assert 1.01 < max(over) < 1.3
    before, _ = study.figures()
    assert before.startswith("10 of 84 stored optima overload a channel, by up to 27.3 %")
    assert len(list(study.overloads())) == 2 + 3 * 2


def test_half_shares_lower_the_optimum_and_the_other_rows_raise_it() -> None:
    """One instance of real routing under every settlement; all proven."""
    found = {name: study.solved("esft-window", 1, 10, name)[0] for name in study.SETTLED}
    assert all(of.objective == of.bound for of in found.values())
    ratio = {name: of.objective / of.before for name, of in found.items()}
    assert ratio["channels"] >= 1 > ratio["half shares, channels"]
    assert ratio["+ base load"] >= ratio["half shares, channels"] > ratio["+ two parts"]
    assert len(list(study.table(["esft-window"], 1, 10))) == 2 + 1 + len(study.SETTLED)
