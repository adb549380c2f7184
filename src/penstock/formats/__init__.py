"""Other people's layouts, one file each."""
