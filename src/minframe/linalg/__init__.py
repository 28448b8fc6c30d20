"""Algorithms on batches of small matrices: pivoting, the generalised QR decomposition, stabiliser averages."""
