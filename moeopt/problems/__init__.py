"""What is decided: one folder per problem, the same furniture in each."""
