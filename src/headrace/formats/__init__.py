"""Other people's layouts, one file each, all giving the same `Source` of samples."""
