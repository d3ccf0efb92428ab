"""Parts that were changed anywhere and have right digests again: every tool gives a right value or an error of ours."""
