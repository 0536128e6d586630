"""The paper's tables from the data at hand, with the paper's numbers beside ours."""
