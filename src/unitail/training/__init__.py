"""The paper's training procedure."""
