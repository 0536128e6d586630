"""What several tests build."""
