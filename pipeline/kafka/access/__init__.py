"""ACLs: the rights that each role needs, checking them and granting them."""
