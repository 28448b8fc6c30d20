"""The volume of the convex hull of points in five dimensions: permutations and O(5) change nothing."""
