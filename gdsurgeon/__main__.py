"""python -m gdsurgeon."""

from gdsurgeon.cli.main import run

if __name__ == "__main__":
    run()
