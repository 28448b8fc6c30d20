"""Jets: is it a top quark? O(1, 3) acts."""
