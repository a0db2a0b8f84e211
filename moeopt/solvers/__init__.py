"""How problems are solved: methods, backends and limits, along one code path."""
