"""What is decided: one folder per problem, the same modules in each."""
