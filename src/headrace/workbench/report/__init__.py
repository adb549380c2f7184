"""One self-contained HTML file from measured values: no network, vector charts, light, dark, phone and print."""
