"""The quality bench of retrieval: how well and how fast what is known is found, by the size of the index."""
