"""`headrace bench` and `headrace doctor PATH`: measure every stage and find the bottleneck."""
