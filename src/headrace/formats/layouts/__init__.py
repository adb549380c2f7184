"""Other people's layouts, one file each; the table `LAYOUTS` in `formats/detect.py` has them all."""
