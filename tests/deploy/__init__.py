"""What deploy/ holds, checked by the programs that it is for."""
