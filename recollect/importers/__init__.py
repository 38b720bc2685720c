"""One file for each format that can be imported. Readers yield items (`items.py`), `writing.py` stores them."""
