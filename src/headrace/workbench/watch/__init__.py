"""`headrace doctor -- command`: runs a program unchanged and finds what its loop waits for."""
