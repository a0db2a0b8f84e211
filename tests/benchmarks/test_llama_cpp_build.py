"""What is read of llama.cpp's source package; nothing is built here."""

from benchmarks.real import llama_cpp


def test_the_commit_is_the_first_one_that_the_changes_name() -> None:
    """As the package's list of changes has the newest first."""
    text = "## [2]\n- feat: update llama.cpp to ggml-org/llama.cpp@0c1e57098\n" * 2
    found = llama_cpp.BUILD_COMMIT.search(text + "ggml-org/llama.cpp@1111111")
    assert found is not None
    assert found[1] == "0c1e57098"
