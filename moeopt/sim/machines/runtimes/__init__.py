"""Real runtimes: what a token takes in llama.cpp and its like, predicted, fitted and calibrated."""
