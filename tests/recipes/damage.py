"""Damages a checkpoint as a disk does."""


def damage(checkpoint):
    """Flips one byte in the middle of the largest file of its arrays."""
    files = [path for path in (checkpoint / "state").rglob("*") if path.is_file()]
    largest = max(files, key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
