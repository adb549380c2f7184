"""`--html`: one self-contained HTML file with vector charts, for screens, phones and print."""
