"""Every solver and every kind of factor against brute force; a package so that its tests can share `helpers`."""
