"""Large jobs: rows cut into chunks, workers that encode or answer them, a file for each chunk."""
