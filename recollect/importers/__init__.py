"""One file for each format that can be read in. Readers give items (`items.py`), `writing.py` stores them."""
