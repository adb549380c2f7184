"""`headrace doctor -- command`: runs a program of the user's unchanged, and says what its loop waited for."""
