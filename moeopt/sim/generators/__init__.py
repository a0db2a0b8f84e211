"""One generator per problem: from machine, model and trace to an instance, reproducibly."""
