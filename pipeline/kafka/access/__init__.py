"""Who may do what on a cluster with ACLs: the rights of each role, asked for and granted."""
